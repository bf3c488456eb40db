-- Items of the set $1 that begin with the revision $2; $3 to $6 are columns, one entry per item.
INSERT INTO revision_items (domain, from_revision, kind, name, hash, requires)
SELECT $1, $2, kind, name, hash, string_to_array(requires, ' ')
FROM unnest($3::text[], $4::text[], $5::bytea[], $6::text[]) AS added (kind, name, hash, requires)
