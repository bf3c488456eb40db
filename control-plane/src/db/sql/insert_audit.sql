-- Entries by $1 on the domain $2, published as the revision $3; $4 to $8 are columns, one entry per change.
INSERT INTO audit (author, domain, revision, kind, name, action, before, after)
SELECT $1, $2, $3, kind, name, action, before::json, after::json
FROM unnest($4::text[], $5::text[], $6::text[], $7::text[], $8::text[]) AS c (kind, name, action, before, after)
