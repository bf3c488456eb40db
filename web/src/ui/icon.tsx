/** The dashboard's own icons: 20 by 20, one stroke. They are decoration beside words, so hidden from screen readers. */
import type { ReactNode } from "react";

const paths = {
  overview: <path d="M3 15.5V4M3 15.5h14M6 12l3.2-3.6 2.6 2.3L16.5 5.5" />,
  rules: <path d="M4 5h7M15 5h1M4 10h1M9 10h7M4 15h8M16 15h0M13 3.2v3.6M7 8.2v3.6M14 13.2v3.6" />,
  tiers: <path d="M10 3 3 6.8l7 3.8 7-3.8L10 3ZM3 10.3l7 3.8 7-3.8M3 13.7l7 3.8 7-3.8" />,
  agents: <path d="M4 4h12v5H4zM4 11h12v5H4zM7 6.5h.01M7 13.5h.01" />,
  shards: (
    <path d="M4 5.5C4 4.1 6.7 3 10 3s6 1.1 6 2.5S13.3 8 10 8 4 6.9 4 5.5ZM4 5.5v9C4 15.9 6.7 17 10 17s6-1.1 6-2.5v-9M4 10c0 1.4 2.7 2.5 6 2.5s6-1.1 6-2.5" />
  ),
  alerts: (
    <path d="M10 3a4.5 4.5 0 0 0-4.5 4.5c0 4-1.5 5-1.5 6h12c0-1-1.5-2-1.5-6A4.5 4.5 0 0 0 10 3ZM8.5 16.5a1.6 1.6 0 0 0 3 0" />
  ),
  revisions: <path d="M4 10a6 6 0 1 0 1.8-4.3L4 7.5M4 3.5v4h4M10 7v3.3l2.3 1.4" />,
  audit: <path d="M5 3h7l3 3v11H5zM12 3v3h3M7.5 9.5h5M7.5 12.5h5" />,
  tokens: (
    <path d="M12.5 3a4.5 4.5 0 0 0-4.2 6.1L3 14.4V17h2.6v-1.9h1.9v-1.9h1.5l1-1A4.5 4.5 0 1 0 12.5 3ZM13.5 6.5h.01" />
  ),
  sun: (
    <path d="M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7ZM10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1.1 1.1M14.6 14.6l1.1 1.1M4.3 15.7l1.1-1.1M14.6 5.4l1.1-1.1" />
  ),
  moon: <path d="M16.5 11.8A7 7 0 0 1 8.2 3.5a7 7 0 1 0 8.3 8.3Z" />,
  screen: <path d="M3 4h14v9H3zM7.5 16.5h5M10 13v3.5" />,
  menu: <path d="M3 5.5h14M3 10h14M3 14.5h14" />,
  user: <path d="M10 10a3.2 3.2 0 1 0 0-6.5 3.2 3.2 0 0 0 0 6.5ZM4 16.5c.6-2.7 3-4.2 6-4.2s5.4 1.5 6 4.2" />,
  signOut: <path d="M8 3.5H4v13h4M12 6.5l3.5 3.5-3.5 3.5M15.5 10H7.5" />,
  plus: <path d="M10 4v12M4 10h12" />,
  trash: <path d="M4 5.5h12M8 5.5V3.5h4v2M5.5 5.5l.7 11h7.6l.7-11M8.5 8.5v5M11.5 8.5v5" />,
  edit: <path d="m3.5 16.5.6-3L13 4.6l2.4 2.4-8.9 8.9-3 .6ZM11.5 6.1l2.4 2.4" />,
  copy: <path d="M7 7h9v9H7zM4 13V4h9" />,
  check: <path d="m4 10.5 4 4 8-9" />,
  cross: <path d="m5 5 10 10M15 5 5 15" />,
  up: <path d="m5 12 5-5 5 5" />,
  down: <path d="m5 8 5 5 5-5" />,
  right: <path d="m8 5 5 5-5 5" />,
  left: <path d="m12 5-5 5 5 5" />,
  pause: <path d="M7 4.5v11M13 4.5v11" />,
  play: <path d="M6.5 4.5v11l9-5.5-9-5.5Z" />,
  calendar: <path d="M3.5 5h13v11.5h-13zM3.5 8.5h13M7 3v3.5M13 3v3.5" />,
  warning: <path d="M10 3.5 2.8 16h14.4L10 3.5ZM10 8.5v3.5M10 14h.01" />,
  info: <path d="M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14ZM10 9v4.5M10 6.5h.01" />,
  search: <path d="M9 3.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11ZM13 13l3.8 3.8" />,
  bolt: <path d="M11 2.5 4.5 11.5H9.5L9 17.5l6.5-9h-5l.5-6Z" />,
} satisfies Record<string, ReactNode>;

export type IconName = keyof typeof paths;

export function Icon({ name, size = 18 }: { name: IconName; size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 20 20"
      fill="none"
      stroke="currentColor"
      strokeWidth={1.5}
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      focusable="false"
    >
      {paths[name]}
    </svg>
  );
}
