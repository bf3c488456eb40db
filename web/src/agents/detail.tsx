import type { ReactNode } from "react";
import type { Agent, AgentSet } from "../api/model";
import { millisWords } from "../format/span";
import { at } from "../format/time";
import { Mark } from "../ui/mark";
import { breakerTone, STATE_WORDS } from "./convergence";
import classes from "./page.module.css";

/** All that is known of one agent, first of all why it refused what it refused. */
export function AgentDetail({ agent }: { agent: Agent }) {
  return (
    <div className={classes.detail}>
      <dl className={classes.facts}>
        <Fact name="Build">{agent.build || "–"}</Fact>
        <Fact name="Time zones">{agent.time_zones || "–"}</Fact>
        <Fact name="Boot">{agent.boot || "–"}</Fact>
        <Fact name="Token">{agent.token || "–"}</Fact>
        <Fact name="Connected since">{at(agent.connected_since)}</Fact>
        <Fact name="Rules are behind by">
          {agent.stale_seconds > 0 ? millisWords(Math.round(agent.stale_seconds) * 1_000) : "nothing"}
        </Fact>
        {agent.last_error && <Fact name="Last error">{agent.last_error}</Fact>}
      </dl>
      {agent.domains.map((set) => (
        <SetState key={set.domain} what={`Rules of ${set.domain}`} set={set} />
      ))}
      {agent.ring && <SetState what="Ring" set={agent.ring} />}
      {agent.shards.length > 0 && (
        <section>
          <h3>Shards</h3>
          <ul>
            {agent.shards.map((shard) => (
              <li key={shard.shard}>
                <Mark tone={breakerTone(shard.breaker)}>{shard.shard}</Mark>{" "}
                <span className={classes.soft}>
                  breaker {shard.breaker.replace("_", " ")}
                  {shard.last_error && `: ${shard.last_error}`}
                </span>
                {(shard.nodes ?? [])
                  .filter((node) => node.breaker !== "closed")
                  .map((node) => (
                    <div key={node.node} className={classes.soft}>
                      node {node.node}: breaker {node.breaker.replace("_", " ")}
                      {node.last_error && `: ${node.last_error}`}
                    </div>
                  ))}
                {(shard.warnings ?? []).map((warning) => (
                  <div key={warning.code} className={classes.soft}>
                    {warning.text}
                  </div>
                ))}
              </li>
            ))}
          </ul>
        </section>
      )}
      {agent.warnings.length > 0 && (
        <section>
          <h3>Warnings</h3>
          <ul>
            {agent.warnings.map((warning) => (
              <li key={warning}>{warning}</li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function SetState({ what, set }: { what: string; set: AgentSet }) {
  const { tone, label } = STATE_WORDS[set.state] ?? { tone: "idle" as const, label: set.state };
  return (
    <section>
      <h3>{what}</h3>
      <p>
        <Mark tone={tone}>{label}</Mark> runs {set.revision}, newest {set.latest}{" "}
        <span className={classes.soft} title={set.hash}>
          hash {set.hash.slice(0, 12) || "–"}
        </span>
      </p>
      {set.errors.length > 0 && (
        <ul className={classes.errors}>
          {set.errors.map((error) => (
            <li key={error}>{error}</li>
          ))}
        </ul>
      )}
    </section>
  );
}
