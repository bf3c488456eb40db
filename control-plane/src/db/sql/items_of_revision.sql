-- What the revision $2 of the set $1 holds.
SELECT r.kind, r.name, i.body, r.requires FROM revision_items r JOIN items i USING (hash)
WHERE r.domain = $1 AND r.from_revision <= $2 AND (r.until_revision IS NULL OR r.until_revision > $2) ORDER BY r.kind, r.name
