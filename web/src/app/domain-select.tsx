import { Select } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { DEFAULT_DOMAIN, useDomain, useDomains } from "./domain";

/** Which domain the pages are about; not there while there is only one to choose. */
export function DomainSelect() {
  const domain = useDomain();
  const { data: domains } = useDomains();
  const navigate = useNavigate();
  const names = domains?.map((d) => d.name) ?? [];
  if (names.length < 2 && domain === DEFAULT_DOMAIN) return null;
  const choose = (name: string | null) => {
    // Filters name things of the old domain, so only the page stays.
    if (name !== null) void navigate({ to: ".", search: { domain: name === DEFAULT_DOMAIN ? undefined : name } });
  };
  return (
    <Select
      label="Domain"
      size="xs"
      value={domain}
      onChange={choose}
      data={names.includes(domain) ? names : [domain, ...names]}
      searchable={names.length > 10}
    />
  );
}
