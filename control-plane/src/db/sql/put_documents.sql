-- Documents of the set $1 as of the revision $5, by $6; $2 to $4 are columns, one entry per document.
INSERT INTO documents (domain, kind, name, body, revision, updated_by)
SELECT $1, kind, name, body::json, $5, $6 FROM unnest($2::text[], $3::text[], $4::text[]) AS kept (kind, name, body)
ON CONFLICT (domain, kind, name) DO UPDATE
SET body = excluded.body, revision = excluded.revision, updated_at = now(), updated_by = excluded.updated_by
