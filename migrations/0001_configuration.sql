-- Configuration: what operators write, what agents get, who may do so, and who did.
--
-- Migrations are forward-only. One that is released is never edited; a later one must keep working while the release before it
-- still runs (add first, remove a release later). Every statement works on PostgreSQL 15 and newer.

-- A *set* is what is published as a whole and versioned by one counter: the rules of a domain, or the ring of shards. The ring is the
-- set whose domain is the empty text, which no domain can be named. A writer locks the row of its set first, so revisions of one set
-- are written one after the other. The row outlives the domain: a domain made anew goes on counting, since agents may still hold the
-- older revisions.
CREATE TABLE sets (
    domain     text COLLATE "C" PRIMARY KEY,
    revision   bigint      NOT NULL DEFAULT 0 CHECK (revision >= 0),
    hash       bytea       NOT NULL CHECK (octet_length(hash) = 32),
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- What operators wrote, as it stands now: the settings of a domain (kind `domain`, named like the domain), its tiers and rules, and the
-- shards of the ring. All have the same life, so all are one table; `body` is the canonical document that agents get as well.
-- `revision` is the revision that last changed the row: it is also the row's ETag.
CREATE TABLE documents (
    domain     text COLLATE "C" NOT NULL REFERENCES sets (domain),
    kind       text COLLATE "C" NOT NULL CHECK (kind IN ('domain', 'tier', 'rule', 'shard')),
    name       text COLLATE "C" NOT NULL CHECK (name ~ '^[A-Za-z0-9_.:-]{1,64}$'),
    body       json        NOT NULL,
    revision   bigint      NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    updated_by text        NOT NULL,
    PRIMARY KEY (domain, kind, name),
    CHECK ((kind = 'shard') = (domain = '')),
    CHECK (kind <> 'domain' OR name = domain)
);
CREATE INDEX documents_of_kind ON documents (kind, name);

-- Every published revision; never changed afterwards, and the oldest are removed (1,000 are kept of each set).
CREATE TABLE revisions (
    domain     text COLLATE "C" NOT NULL REFERENCES sets (domain),
    revision   bigint      NOT NULL CHECK (revision > 0),
    hash       bytea       NOT NULL CHECK (octet_length(hash) = 32),
    created_at timestamptz NOT NULL DEFAULT now(),
    author     text        NOT NULL,
    summary    text        NOT NULL,
    -- [{"kind", "name", "action": "create|update|delete"}]
    changes    json        NOT NULL,
    PRIMARY KEY (domain, revision)
);

-- The content of items, each stored once whatever the number of revisions that hold it.
CREATE TABLE items (
    hash bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
    body bytea NOT NULL
);

-- Which items a revision holds: those with from_revision <= revision < until_revision (no end: still current). So a revision costs as
-- many rows as it changes, not as many as it has.
CREATE TABLE revision_items (
    domain         text COLLATE "C" NOT NULL REFERENCES sets (domain),
    kind           text COLLATE "C" NOT NULL,
    name           text COLLATE "C" NOT NULL,
    from_revision  bigint NOT NULL,
    until_revision bigint CHECK (until_revision > from_revision),
    hash           bytea  NOT NULL REFERENCES items (hash),
    -- Features that an agent must have to use the item.
    requires       text[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (domain, kind, name, from_revision)
);
CREATE UNIQUE INDEX revision_items_current ON revision_items (domain, kind, name) WHERE until_revision IS NULL;
CREATE INDEX revision_items_ended ON revision_items (domain, until_revision) WHERE until_revision IS NOT NULL;
CREATE INDEX revision_items_hash ON revision_items (hash);

-- Secrets have tables of their own, which no snapshot, API answer or audit entry is made from. The first byte of a value says how it
-- is stored (0: as it is), so that a later release can tell what it finds.
CREATE TABLE secrets (
    name       text PRIMARY KEY,
    value      bytea       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- What agents need to log in to a shard.
CREATE TABLE shard_credentials (
    shard      text COLLATE "C" PRIMARY KEY,
    username   bytea,
    password   bytea,
    updated_at timestamptz NOT NULL DEFAULT now()
);

-- API tokens of people and programs, and tokens of agents. Only a hash is stored; the text is shown once.
CREATE TABLE tokens (
    id           uuid PRIMARY KEY,
    name         text COLLATE "C" NOT NULL UNIQUE CHECK (name ~ '^[A-Za-z0-9_.:-]{1,64}$'),
    kind         text        NOT NULL CHECK (kind IN ('api', 'agent')),
    role         text        CHECK (role IN ('viewer', 'operator', 'admin')),
    -- The domains it is good for; NULL: all, also those to come.
    domains      text[],
    hash         bytea       NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    created_at   timestamptz NOT NULL DEFAULT now(),
    created_by   text        NOT NULL,
    expires_at   timestamptz,
    last_used_at timestamptz,
    CHECK ((kind = 'api') = (role IS NOT NULL))
);

-- Dashboard sessions, by the hash of their cookie. Ended with the token that they were made from.
CREATE TABLE sessions (
    hash       bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
    name       text        NOT NULL,
    role       text        NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    domains    text[],
    token_id   uuid REFERENCES tokens (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);
CREATE INDEX sessions_token ON sessions (token_id);
CREATE INDEX sessions_expiry ON sessions (expires_at);

-- Single-use codes of sign-in links, by hash.
CREATE TABLE sign_in_codes (
    hash       bytea PRIMARY KEY CHECK (octet_length(hash) = 32),
    name       text        NOT NULL,
    role       text        NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    domains    text[],
    token_id   uuid REFERENCES tokens (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT now(),
    -- When the session must end that is made from it: no later than the one that made the link, if no token is behind that.
    until      timestamptz,
    expires_at timestamptz NOT NULL
);
CREATE INDEX sign_in_codes_token ON sign_in_codes (token_id);

-- Who changed what. `domain` is empty for what belongs to no domain. Holds no secret.
CREATE TABLE audit (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT now(),
    author   text        NOT NULL,
    domain   text COLLATE "C" NOT NULL,
    kind     text COLLATE "C" NOT NULL,
    name     text COLLATE "C" NOT NULL,
    action   text        NOT NULL,
    -- The document before and after; NULL where there was none.
    before   json,
    after    json,
    -- The revision that the change was published as, if it was.
    revision bigint
);
CREATE INDEX audit_of_document ON audit (domain, kind, name, id);

-- Agents that have ever connected, as the control plane last saw them. A name belongs to the first token that used it, until that token
-- is deleted.
CREATE TABLE agents (
    name                 text COLLATE "C" PRIMARY KEY CHECK (name ~ '^[A-Za-z0-9_.:-]{1,64}$'),
    token_id             uuid REFERENCES tokens (id) ON DELETE SET NULL,
    boot                 text        NOT NULL DEFAULT '',
    build                text        NOT NULL DEFAULT '',
    -- The control-plane process that holds its stream; NULL: not connected.
    connected_to         uuid,
    connected_since      timestamptz,
    first_seen           timestamptz NOT NULL DEFAULT now(),
    last_seen            timestamptz NOT NULL DEFAULT now(),
    last_error           text        NOT NULL DEFAULT '',
    warnings             text[]      NOT NULL DEFAULT '{}',
    -- [{"shard", "breaker", "last_error"}]
    shards               json        NOT NULL DEFAULT '[]',
    decisions_per_second double precision NOT NULL DEFAULT 0,
    stale_seconds        bigint      NOT NULL DEFAULT 0,
    dropped_events       bigint      NOT NULL DEFAULT 0
);
CREATE INDEX agents_token ON agents (token_id);

-- What each agent runs of each set that it wants, and what it refused.
CREATE TABLE agent_sets (
    agent            text COLLATE "C" NOT NULL REFERENCES agents (name) ON DELETE CASCADE,
    domain           text COLLATE "C" NOT NULL,
    -- What it runs; 0: nothing yet.
    revision         bigint      NOT NULL DEFAULT 0,
    hash             bytea,
    -- What it refused last, until it runs something newer.
    refused_revision bigint,
    refused_hash     bytea,
    errors           text[]      NOT NULL DEFAULT '{}',
    temporary        boolean     NOT NULL DEFAULT false,
    updated_at       timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (agent, domain)
);
CREATE INDEX agent_sets_domain ON agent_sets (domain, revision);

-- The ring exists from the beginning, empty. The hash is that of no items.
INSERT INTO sets (domain, hash)
VALUES ('', sha256(''));
