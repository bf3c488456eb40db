/** How far a revision has come: which agents run it. */
import { useRevision } from "../api/revisions";
import { plural } from "../format/number";

export function Rollout({ domain, revision }: { domain: string; revision: number }) {
  const { data } = useRevision(domain, revision, true);
  const agents = data?.agents;
  if (!agents) return <>Revision {revision} is on its way to the agents.</>;
  const { current, pending, refused } = agents;
  const all = current.length + pending.length + refused.length;
  if (all === 0) return <>Revision {revision}. No agent is connected; it waits for them.</>;
  if (refused.length > 0) {
    return (
      <>
        Revision {revision} was refused by {plural(refused.length, "agent")}; see Agents for the reason.
      </>
    );
  }
  return (
    <>
      Revision {revision} runs on {current.length} of {plural(all, "agent")}.
    </>
  );
}
