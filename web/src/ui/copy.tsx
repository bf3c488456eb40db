import { Button } from "@mantine/core";
import { useClipboard } from "@mantine/hooks";
import classes from "./copy.module.css";
import { Icon } from "./icon";

/** A button that copies `text`. */
export function Copy({ text, label = "Copy" }: { text: string; label?: string }) {
  const clipboard = useClipboard({ timeout: 2_000 });
  return (
    <Button
      size="compact-sm"
      variant="default"
      leftSection={<Icon name={clipboard.copied ? "check" : "copy"} size={14} />}
      onClick={() => clipboard.copy(text)}
    >
      {clipboard.copied ? "Copied" : label}
    </Button>
  );
}

/** A command to run, with a button that copies it. */
export function Command({ text }: { text: string }) {
  return (
    <div className={classes.command}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
      <pre tabIndex={0}>{text}</pre>
      <Copy text={text} />
    </div>
  );
}
