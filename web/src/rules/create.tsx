import { Anchor } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useDomain } from "../app/domain";
import { Page } from "../ui/page";
import { RuleEditor } from "./editor";

export default function CreateRulePage() {
  const domain = useDomain();
  return (
    <Page
      title="New rule"
      lead={
        <>
          It reaches every agent as soon as it is stored. Not sure yet? Start in shadow mode and watch the{" "}
          <Anchor underline="always" renderRoot={(props) => <Link to="/" {...props} />}>
            overview
          </Anchor>
          .
        </>
      }
    >
      <RuleEditor key={domain} domain={domain} warnings={[]} />
    </Page>
  );
}
