import { Anchor } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { Revision } from "../api/model";
import { at } from "../format/time";
import classes from "./changes.module.css";

const SHOWN = 3;

/** The changes of the rules that the chart marks, newest first. */
export function Changes({ revisions }: { revisions: readonly Revision[] }) {
  if (revisions.length === 0) return null;
  return (
    <ul className={classes.changes} aria-label="Changes of the rules in this range">
      {revisions.slice(0, SHOWN).map(({ revision, created_at, author, summary }) => (
        <li key={revision}>
          <strong>r{revision}</strong> {at(created_at)} · <bdi>{author}</bdi> · <bdi>{summary}</bdi>
        </li>
      ))}
      {revisions.length > SHOWN && (
        <li>
          <Anchor size="sm" renderRoot={(props) => <Link to="/revisions" {...props} />}>
            {revisions.length - SHOWN} more
          </Anchor>
        </li>
      )}
    </ul>
  );
}
