-- Entries before $1, newest first; $2 is the scope of who asks, $3 to $5 are filters, NULL being any.
SELECT id, at, author, domain, kind, name, action, before, after, revision FROM audit
WHERE id < $1 AND ($2::text[] IS NULL OR domain = ANY ($2)) AND ($3::text IS NULL OR domain = $3)
  AND ($4::text IS NULL OR kind = $4) AND ($5::text IS NULL OR name = $5) ORDER BY id DESC LIMIT $6
