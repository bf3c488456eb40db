-- A shard's primary may be known through sentinels, which have a login of their own.
ALTER TABLE shard_credentials
    ADD COLUMN sentinel_username bytea,
    ADD COLUMN sentinel_password bytea;
