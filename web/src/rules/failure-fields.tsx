import { Select, TextInput } from "@mantine/core";
import rows from "../ui/field-row.module.css";
import { Panel } from "../ui/page";
import type { RuleFields } from "./basic-fields";
import { FAILURE_WORDS } from "./words";

const MODES = Object.entries(FAILURE_WORDS).map(([value, label]) => ({ value, label }));
const FIRST = [{ value: "", label: "The domain’s default" }, ...MODES];
const THEN = [{ value: "", label: "Nothing else" }, ...MODES];

/** What happens while the counters cannot be reached. */
export function FailureFields({ form }: RuleFields) {
  const { failureMode } = form.values;
  return (
    <Panel title="While its shard is away">
      <div className={rows.list}>
        <div className={`${rows.row} ${rows.two}`}>
          <Select label="At first" data={FIRST} {...form.getInputProps("failureMode")} />
          {failureMode === "local" && (
            <TextInput
              label="Generosity"
              placeholder="1.0"
              inputMode="decimal"
              {...form.getInputProps("generosity")}
              description="How many times its share of the limit each agent lets pass."
              inputWrapperOrder={["label", "input", "description", "error"]}
            />
          )}
        </div>
        {failureMode !== "" && (
          <div className={`${rows.row} ${rows.two}`}>
            <TextInput label="After" placeholder="5s" spellCheck={false} {...form.getInputProps("escalateAfter")} />
            <Select label="Then" data={THEN} {...form.getInputProps("escalateTo")} />
          </div>
        )}
      </div>
    </Panel>
  );
}

/** Which of several matching rules wins, and what a request costs. */
export function PrecedenceFields({ form }: RuleFields) {
  const inFlight = form.values.algorithm === "concurrency";
  return (
    <Panel title="Precedence and cost">
      <div className={rows.list}>
        <div className={`${rows.row} ${rows.two}`}>
          <TextInput
            label="Group"
            description="Of a group only the winner applies. Empty: the domain’s default."
            placeholder={form.values.name || "its own name"}
            spellCheck={false}
            {...form.getInputProps("group")}
          />
          <TextInput
            label="Priority"
            description="In its group the highest wins, before the more specific match."
            placeholder="0"
            inputMode="numeric"
            {...form.getInputProps("priority")}
          />
        </div>
        <TextInput
          label="Cost header"
          description={
            inFlight
              ? "A request in flight is one, whatever it costs."
              : "Takes a request’s cost from this header. Empty: each request costs 1, or what the gateway says."
          }
          placeholder="x-cost"
          disabled={inFlight}
          spellCheck={false}
          {...form.getInputProps("costHeader")}
        />
      </div>
    </Panel>
  );
}
