INSERT INTO shard_credentials (shard, username, password, sentinel_username, sentinel_password) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (shard) DO UPDATE SET username = excluded.username, password = excluded.password, sentinel_username = excluded.sentinel_username,
    sentinel_password = excluded.sentinel_password, updated_at = now()
