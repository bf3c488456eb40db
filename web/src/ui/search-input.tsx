import { TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useEffect, useRef, useState } from "react";
import { Icon } from "./icon";

interface Props {
  label: string;
  placeholder: string;
  /** What the address holds. */
  value: string;
  onChange: (text: string) => void;
  size?: "xs" | "sm";
}

const WAIT_MILLIS = 150;

/** A filter that lives in the address. Keystrokes stay here until the typing pauses, so that none is lost on the way through the router. */
export function SearchInput({ label, placeholder, value, onChange, size = "sm" }: Props) {
  const [typed, setTyped] = useState(value);
  const sent = useRef(value);
  const send = useDebouncedCallback((text: string) => {
    sent.current = text;
    onChange(text);
  }, WAIT_MILLIS);
  useEffect(() => {
    // Not ours: a link, or the way back.
    if (value === sent.current) return;
    sent.current = value;
    setTyped(value);
  }, [value]);
  return (
    <TextInput
      size={size}
      aria-label={label}
      placeholder={placeholder}
      leftSection={<Icon name="search" size={size === "xs" ? 14 : 16} />}
      value={typed}
      onChange={(event) => {
        setTyped(event.currentTarget.value);
        send(event.currentTarget.value);
      }}
    />
  );
}
