/** Who is signed in, the colour scheme, and the way out. */
import { Menu, SegmentedControl, UnstyledButton, useMantineColorScheme, VisuallyHidden } from "@mantine/core";
import { zone } from "../format/time";
import { useSession, useSignOut } from "../session/session";
import { Icon, type IconName } from "../ui/icon";
import classes from "./account.module.css";

const SCHEMES: { value: "light" | "auto" | "dark"; label: string; icon: IconName }[] = [
  { value: "light", label: "Light", icon: "sun" },
  { value: "auto", label: "Like the system", icon: "screen" },
  { value: "dark", label: "Dark", icon: "moon" },
];

export function Account() {
  const { data: session } = useSession();
  const signOut = useSignOut();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  return (
    <div className={classes.account}>
      <SegmentedControl
        fullWidth
        size="xs"
        aria-label="Colour scheme"
        value={colorScheme}
        onChange={(value) => setColorScheme(value as typeof colorScheme)}
        data={SCHEMES.map(({ value, label, icon }) => ({
          value,
          label: (
            <span className={classes.scheme} title={label}>
              <Icon name={icon} size={16} />
              <VisuallyHidden>{label}</VisuallyHidden>
            </span>
          ),
        }))}
      />
      <Menu position="top-start" width={200}>
        <Menu.Target>
          <UnstyledButton className={classes.user}>
            <Icon name="user" size={20} />
            <span className={classes.who}>
              <bdi className={classes.name}>{session?.name}</bdi>
              <span className={classes.role}>{session?.role}</span>
            </span>
          </UnstyledButton>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Label>Times in {zone()}</Menu.Label>
          <Menu.Item component="a" href="/docs" target="_blank" rel="noreferrer" leftSection={<Icon name="info" />}>
            API reference
          </Menu.Item>
          <Menu.Item leftSection={<Icon name="signOut" />} onClick={() => signOut.mutate()}>
            Sign out
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
    </div>
  );
}
