/** JSON pointers (RFC 6901), by which the server says where a mistake is. */
import type { Mistake } from "./model";

/** The parts of a pointer, unescaped: `/limits/a~1b/window` is `["limits", "a/b", "window"]`, the empty pointer `[]`. */
export function pointerParts(pointer: string): string[] {
  if (!pointer.startsWith("/")) return [];
  return pointer
    .slice(1)
    .split("/")
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** Mistakes by field; those that no field shows are in `others`. Two mistakes of one field are both said. */
export function placeMistakes(mistakes: readonly Mistake[], place: (pointer: string) => string | undefined) {
  const fields: Record<string, string> = {};
  const others: Mistake[] = [];
  for (const mistake of mistakes) {
    const field = place(mistake.pointer);
    if (field === undefined) others.push(mistake);
    else fields[field] = fields[field] === undefined ? mistake.detail : `${fields[field]}; ${mistake.detail}`;
  }
  return { fields, others };
}
