import { Input, SegmentedControl, Textarea, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import rows from "../ui/field-row.module.css";
import { Panel } from "../ui/page";
import type { RuleForm } from "./form";

export type RuleFields = { form: UseFormReturnType<RuleForm> };

const MODES = [
  { value: "enforce", label: "Enforce" },
  { value: "shadow", label: "Shadow" },
  { value: "off", label: "Off" },
];

const MODE_HELP = {
  enforce: "Refuses what is over the limit.",
  shadow: "Decides and reports beside the enforcing rules, and never refuses.",
  off: "Does not exist for requests.",
};

/** What the rule is called, what it is for and whether it acts. */
export function BasicFields({ form, named }: RuleFields & { named: boolean }) {
  return (
    <Panel title="Rule">
      <div className={rows.list}>
        <TextInput
          label="Name"
          description={
            named ? "A rule keeps its name: it is in headers, metrics and events." : "In headers, metrics and events."
          }
          placeholder="search"
          required={!named}
          readOnly={named}
          autoComplete="off"
          spellCheck={false}
          {...form.getInputProps("name")}
        />
        <Textarea label="Description" autosize minRows={2} maxRows={6} {...form.getInputProps("description")} />
        <div className={`${rows.row} ${rows.two}`}>
          <Input.Wrapper
            label="Mode"
            description={MODE_HELP[form.values.mode]}
            error={form.errors.mode}
            labelElement="div"
          >
            <SegmentedControl
              fullWidth
              mt={6}
              aria-label="Mode"
              data={MODES}
              value={form.values.mode}
              onChange={(mode) => form.setFieldValue("mode", mode as RuleForm["mode"])}
            />
          </Input.Wrapper>
          {form.values.mode === "enforce" && (
            <TextInput
              label="Share of subjects"
              description="It refuses for so many percent of subjects; for the others it is a shadow."
              placeholder="100"
              inputMode="numeric"
              rightSection="%"
              {...form.getInputProps("enforcePercent")}
            />
          )}
        </div>
      </div>
    </Panel>
  );
}
