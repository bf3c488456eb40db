-- What the push service needs to know of an agent's stream, beside what `agents` and `agent_sets` say.

-- The stream that is open now; a replica that finds another one here gives its own up, so an agent that reconnects to another replica is
-- never counted twice. A row whose last_seen is older than heartbeats allow is not connected, whatever it says: its replica died.
ALTER TABLE agents ADD COLUMN stream uuid;
CREATE INDEX agents_last_seen ON agents (last_seen);

-- The build that refused: another build is asked again.
ALTER TABLE agent_sets ADD COLUMN refused_build text;
