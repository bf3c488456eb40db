-- What the kept revisions of these sets hold, by name; a set without any has one row.
SELECT DISTINCT s.domain, i.kind, i.name
FROM sets s LEFT JOIN revision_items i ON i.domain = s.domain AND i.kind IN ('rule', 'tier', 'shard')
WHERE s.domain = ANY ($1)
