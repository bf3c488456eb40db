-- Throttle events: what agents decided, at three resolutions, and samples of what they refused. And the alerts that watch them.
--
-- Times are whole numbers since the epoch (seconds, or milliseconds where the name says so): they are bucketed, compared and partitioned, never
-- computed with as calendar dates. Partitions are made ahead and dropped by the control plane (see ingest/partitions.rs), one statement per
-- table; a level is kept as long as its partitions.

-- Which batches of an agent's process are stored: the highest sequence number, and one bit for each of the 64 before it (bit 0: the one just
-- below). Written in the transaction that stores the batch, so a batch is stored at most once however often it is sent.
CREATE TABLE ingest_progress (
    agent      text COLLATE "C" NOT NULL,
    boot       text COLLATE "C" NOT NULL,
    highest    bigint NOT NULL,
    seen       bigint NOT NULL,
    batches    bigint NOT NULL DEFAULT 0,
    -- Events that the agent said it lost, and rows that we refused.
    dropped    bigint NOT NULL DEFAULT 0,
    refused    bigint NOT NULL DEFAULT 0,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (agent, boot)
);

CREATE INDEX ingest_progress_updated ON ingest_progress (updated_at);

-- Requests and units by rule, tier and outcome. The three levels hold the same sums: each batch is added to all of them at once. Rule '': none
-- matched. Outcomes are the numbers of weir.v1.Outcome. Only the finest level knows shard and cause.
CREATE TABLE traffic_10s (
    bucket   bigint NOT NULL,
    domain   text COLLATE "C" NOT NULL,
    rule     text COLLATE "C" NOT NULL,
    tier     text COLLATE "C" NOT NULL,
    outcome  smallint NOT NULL,
    shard    text COLLATE "C" NOT NULL,
    cause    text COLLATE "C" NOT NULL,
    requests bigint NOT NULL,
    units    bigint NOT NULL,
    PRIMARY KEY (domain, bucket, rule, tier, outcome, shard, cause)
) PARTITION BY RANGE (bucket);

CREATE TABLE traffic_1m (
    bucket   bigint NOT NULL,
    domain   text COLLATE "C" NOT NULL,
    rule     text COLLATE "C" NOT NULL,
    tier     text COLLATE "C" NOT NULL,
    outcome  smallint NOT NULL,
    requests bigint NOT NULL,
    units    bigint NOT NULL,
    PRIMARY KEY (domain, bucket, rule, tier, outcome)
) PARTITION BY RANGE (bucket);

CREATE TABLE traffic_1h (
    bucket   bigint NOT NULL,
    domain   text COLLATE "C" NOT NULL,
    rule     text COLLATE "C" NOT NULL,
    tier     text COLLATE "C" NOT NULL,
    outcome  smallint NOT NULL,
    requests bigint NOT NULL,
    units    bigint NOT NULL,
    PRIMARY KEY (domain, bucket, rule, tier, outcome)
) PARTITION BY RANGE (bucket);

-- The heaviest denied subjects. Agents send the top of a bounded sketch, so counts may be too high by `error`; of each bucket that is over,
-- only the heaviest subjects are kept (see ingest/upkeep.rs).
CREATE TABLE subjects_1m (
    bucket       bigint NOT NULL,
    domain       text COLLATE "C" NOT NULL,
    subject      text COLLATE "C" NOT NULL,
    rule         text COLLATE "C" NOT NULL,
    tier         text COLLATE "C" NOT NULL,
    denied       bigint NOT NULL,
    allowed      bigint NOT NULL,
    error        bigint NOT NULL,
    first_second bigint NOT NULL,
    last_second  bigint NOT NULL,
    PRIMARY KEY (domain, bucket, subject, rule, tier)
) PARTITION BY RANGE (bucket);

CREATE TABLE subjects_1h (
    bucket       bigint NOT NULL,
    domain       text COLLATE "C" NOT NULL,
    subject      text COLLATE "C" NOT NULL,
    rule         text COLLATE "C" NOT NULL,
    tier         text COLLATE "C" NOT NULL,
    denied       bigint NOT NULL,
    allowed      bigint NOT NULL,
    error        bigint NOT NULL,
    first_second bigint NOT NULL,
    last_second  bigint NOT NULL,
    PRIMARY KEY (domain, bucket, subject, rule, tier)
) PARTITION BY RANGE (bucket);

-- Sampled refusals, whole. `second` (of time_ms) is there to partition by the same unit as the rest.
CREATE TABLE denials (
    second         bigint NOT NULL,
    id             uuid NOT NULL,
    time_ms        bigint NOT NULL,
    agent          text COLLATE "C" NOT NULL,
    domain         text COLLATE "C" NOT NULL,
    rule           text COLLATE "C" NOT NULL,
    tier           text COLLATE "C" NOT NULL,
    subject        text COLLATE "C" NOT NULL,
    outcome        smallint NOT NULL,
    reason         text NOT NULL,
    method         text NOT NULL,
    host           text NOT NULL,
    path           text NOT NULL,
    client_ip      text NOT NULL,
    limit_units    bigint NOT NULL,
    window_ms      bigint NOT NULL,
    retry_after_ms bigint NOT NULL,
    cost           bigint NOT NULL,
    shard          text COLLATE "C" NOT NULL,
    counter_key    text NOT NULL,
    -- How many refusals this one stands for.
    weight         double precision NOT NULL,
    PRIMARY KEY (second, id)
) PARTITION BY RANGE (second);

CREATE INDEX denials_newest ON denials (domain, time_ms DESC, id DESC);

-- Versions of alerts are never used twice: an alert that is made anew under an old name must not have a version that somebody saw before.
CREATE SEQUENCE alert_versions;

-- An alert: a rule's denied share above a limit for some time, told to one webhook.
CREATE TABLE alerts (
    domain               text COLLATE "C" NOT NULL,
    name                 text COLLATE "C" NOT NULL,
    rule                 text COLLATE "C" NOT NULL,
    denied_share_percent double precision NOT NULL,
    for_seconds          bigint NOT NULL,
    webhook_url          text,
    webhook_secret       text,
    enabled              boolean NOT NULL,
    version              bigint NOT NULL DEFAULT nextval('alert_versions'),
    created_at           timestamptz NOT NULL DEFAULT now(),
    updated_at           timestamptz NOT NULL DEFAULT now(),
    updated_by           text NOT NULL,
    -- State, kept by the evaluator only. above_since: the share has been above the limit since then. Seconds since the epoch.
    firing               boolean NOT NULL DEFAULT false,
    since                bigint,
    above_since          bigint,
    denied_share         double precision,
    evaluated_at         bigint,
    PRIMARY KEY (domain, name)
);

-- What is to be told to webhooks, written in the transaction that changes an alert's state, so nothing is told twice for one change or not at
-- all. The body is fixed here; the signature is made at each attempt.
CREATE TABLE alert_deliveries (
    id           uuid PRIMARY KEY,
    domain       text COLLATE "C" NOT NULL,
    alert        text NOT NULL,
    event        text NOT NULL CHECK (event IN ('firing', 'resolved')),
    body         text NOT NULL,
    state        text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'delivered', 'failed')),
    attempts     integer NOT NULL DEFAULT 0,
    next_attempt timestamptz NOT NULL DEFAULT now(),
    last_status  integer,
    last_error   text NOT NULL DEFAULT '',
    created_at   timestamptz NOT NULL DEFAULT now(),
    finished_at  timestamptz
);

CREATE INDEX alert_deliveries_due ON alert_deliveries (next_attempt) WHERE state = 'pending';
CREATE INDEX alert_deliveries_alert ON alert_deliveries (domain, alert, created_at DESC);
