// The mark: a surge that settles into a level stream.

export function Logo() {
  return (
    <svg class="logo" viewBox="0 0 24 24" width="26" height="26" aria-hidden="true">
      <rect width="24" height="24" rx="6" class="logo-ground" />
      <path
        class="logo-wave"
        d="M3 16.5h2.2C7.4 16.5 7.6 5 9.7 5c2.2 0 2 11.5 4.2 11.5 1.7 0 1.7-5 3.4-5 1.2 0 1.4 2 2.2 2H21"
      />
    </svg>
  );
}
