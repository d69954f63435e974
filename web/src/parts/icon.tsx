// Small line icons, drawn here: 16 × 16, one stroke.

const PATHS = {
  sun: "M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6M8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8 13 13M13 3l-1.2 1.2M4.2 11.8 3 13",
  moon: "M13.4 9.6A5.8 5.8 0 0 1 6.4 2.6a5.8 5.8 0 1 0 7 7Z",
  system: "M2 3h12v8H2zM5.5 14h5M8 11v3",
  help: "M5.8 6a2.3 2.3 0 1 1 3.4 2c-.8.5-1.2.9-1.2 1.8M8 12.4v.2",
  plus: "M8 3v10M3 8h10",
  minus: "M3 8h10",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9M10.4 10.4 14 14",
  close: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  chevron: "M6 3.5 10.5 8 6 12.5",
  pause: "M5.5 3v10M10.5 3v10",
  play: "M4.5 3v10l8-5z",
  link: "M6.5 9.5l3-3M7.2 4.6 9 2.8a3 3 0 0 1 4.2 4.2l-1.8 1.8M8.8 11.4 7 13.2A3 3 0 0 1 2.8 9l1.8-1.8",
  download: "M8 2v8M4.8 7 8 10.2 11.2 7M2.5 13.5h11",
  clock: "M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2M8 4.8V8l2.2 1.6",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  leave: "M6.5 2.5h-4v11h4M6 8h8M11 5l3 3-3 3",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
