import type { Rule } from "../api/model";
import { Notice } from "../ui/notice";
import { Panel } from "../ui/page";
import classes from "./editor.module.css";
import { ruleWords } from "./words";

/** What the form says, in words and as the document that will be sent. */
export function Preview({ rule, warnings }: { rule: Rule; warnings: readonly string[] }) {
  return (
    <>
      <Panel title="In words">
        <div className={classes.words} aria-live="polite">
          {ruleWords(rule).map((sentence) => (
            <p key={sentence}>{sentence}</p>
          ))}
        </div>
      </Panel>
      {warnings.length > 0 && (
        <Notice tone="warn" title="Probably not meant">
          {warnings.map((warning) => (
            <p key={warning}>{warning}</p>
          ))}
        </Notice>
      )}
      <details className={classes.document}>
        <summary>Document</summary>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
        <pre tabIndex={0}>{JSON.stringify(rule, null, 2)}</pre>
      </details>
    </>
  );
}
