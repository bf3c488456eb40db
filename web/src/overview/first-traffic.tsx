import { Command } from "../ui/copy";
import { Empty } from "../ui/state";

/** `weir dev` runs a gateway and an agent at these addresses. */
const GATEWAY = `for i in $(seq 60); do
  curl -s -o /dev/null -w '%{http_code} ' -H 'X-User-Id: alice' http://127.0.0.1:8080/api/search
done; echo`;
const AGENT = `curl -s http://127.0.0.1:7080/v1/check -H 'Content-Type: application/json' \\
  -d '{"subject":"user:alice","method":"GET","path":"/api/search"}'`;

/** The chart without any traffic: how to make some. */
export function FirstTraffic() {
  return (
    <Empty icon="overview" title="No traffic in this range">
      <p>With weir dev, this sends 60 requests through the demo gateway; the last ten are refused:</p>
      <Command text={GATEWAY} />
      <p>Or ask an agent directly:</p>
      <Command text={AGENT} />
    </Empty>
  );
}
