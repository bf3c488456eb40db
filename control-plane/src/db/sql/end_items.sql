-- Ends the current items of the set $1 named by the columns $3 and $4 with the revision $2.
UPDATE revision_items r SET until_revision = $2 FROM unnest($3::text[], $4::text[]) AS ended (kind, name)
WHERE r.domain = $1 AND r.kind = ended.kind AND r.name = ended.name AND r.until_revision IS NULL
