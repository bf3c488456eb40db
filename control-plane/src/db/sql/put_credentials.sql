INSERT INTO shard_credentials (shard, username, password) VALUES ($1, $2, $3)
ON CONFLICT (shard) DO UPDATE SET username = excluded.username, password = excluded.password, updated_at = now()
