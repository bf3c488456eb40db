INSERT INTO denials (second, id, time_ms, agent, domain, rule, tier, subject, outcome, reason, method, host, path, client_ip, limit_units,
                     window_ms, retry_after_ms, cost, shard, counter_key, weight)
SELECT time_ms / 1000, id, time_ms, agent, domain, rule, tier, subject, outcome, reason, method, host, path, client_ip, limit_units,
       window_ms, retry_after_ms, cost, shard, counter_key, weight
FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::smallint[], $9::text[], $10::text[],
            $11::text[], $12::text[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[], $18::text[], $19::text[],
            $20::double precision[])
  AS d (id, time_ms, agent, domain, rule, tier, subject, outcome, reason, method, host, path, client_ip, limit_units, window_ms,
        retry_after_ms, cost, shard, counter_key, weight)
