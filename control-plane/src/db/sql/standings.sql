-- How the agents that want the set $1 stand to it; $2: seconds after which a silent agent is not connected.
SELECT s.agent, s.revision, s.refused_revision, s.errors,
       a.stream IS NOT NULL AND a.last_seen > now() - make_interval(secs => $2) AS connected
FROM agent_sets s JOIN agents a ON a.name = s.agent WHERE s.domain = $1 ORDER BY s.agent
