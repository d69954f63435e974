// The frame around the pages: who we are, where we are, and whether all is well.

import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { post, refreshSession, watchSession, words } from "./lib/api";
import type { Flow, Session } from "./lib/contract";
import { clock } from "./lib/format";
import { listenKeys } from "./lib/keys";
import { useLive } from "./lib/live";
import { readsFiles } from "./lib/sources";
import type { StreamState } from "./lib/stream";
import { nextTheme, setTheme, useTheme } from "./lib/theme";
import { PAGES, type PageName, parseRoute, type Route, routeHash } from "./lib/url";
import { DoorsPage } from "./pages/doors";
import { FilesPage } from "./pages/files";
import { FlowPage } from "./pages/flow";
import { HealthPage, isCritical } from "./pages/health";
import { LoginPage } from "./pages/login";
import { SearchPage } from "./pages/search";
import { SendersPage } from "./pages/senders";
import { Boundary } from "./parts/boundary";
import { Help } from "./parts/help";
import { Icon, type IconName } from "./parts/icon";
import { Logo } from "./parts/logo";
import { Notices, notify } from "./parts/notice";

const TITLES: Record<PageName, string> = {
  flow: "Flow",
  search: "Search",
  doors: "Doors",
  files: "Files",
  senders: "Senders",
  health: "Health",
};

function useRoute(): Route {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  // Before the paint: an address that changes between the first drawing and an effect behind the
  // paint would be heard by nobody.
  useLayoutEffect(() => {
    const changed = () => setRoute(parseRoute(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

export function App() {
  const [session, setSession] = useState<Session | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    const stop = watchSession((next, why) => {
      setSession(next);
      setProblem(why);
    });
    void refreshSession();
    return stop;
  }, []);
  if (session === null) {
    return <Unreached problem={problem} />;
  }
  if (session.required && session.user === null) {
    return (
      <>
        <LoginPage />
        <Notices />
      </>
    );
  }
  return <Inside session={session} />;
}

function Unreached({ problem }: { problem: string | null }) {
  return (
    <main class="unreached">
      <Logo />
      <p role="status">{problem ?? "Loading…"}</p>
      {problem && (
        <button type="button" class="button" onClick={() => void refreshSession()}>
          Try again
        </button>
      )}
    </main>
  );
}

function Inside({ session }: { session: Session }) {
  const route = useRoute();
  const [help, setHelp] = useState(false);
  useEffect(
    () =>
      listenKeys({
        focusQuery,
        help: () => setHelp(true),
        theme: () => setTheme(nextTheme(currentTheme())),
      }),
    [],
  );
  useEffect(() => {
    document.title = `${TITLES[route.page]} · Inrush`;
  }, [route.page]);
  return (
    <>
      <button type="button" class="skip" onClick={toContent}>
        Skip to the content
      </button>
      <Head page={route.page} session={session} onHelp={() => setHelp(true)} />
      <main id="main" tabIndex={-1}>
        <Boundary page={route.page}>
          {route.page === "flow" && <FlowPage />}
          {route.page === "search" && <SearchPage params={route.params} />}
          {route.page === "doors" && <DoorsPage />}
          {route.page === "files" && <FilesPage />}
          {route.page === "senders" && <SendersPage />}
          {route.page === "health" && <HealthPage />}
        </Boundary>
      </main>
      <Notices />
      {help && <Help onClose={() => setHelp(false)} />}
    </>
  );
}

/** A link would do, but the pages take what is behind the `#`. */
function toContent(): void {
  document.getElementById("main")?.focus();
}

function currentTheme() {
  const set = document.documentElement.dataset.theme;
  return set === "light" || set === "dark" ? set : "system";
}

function focusQuery(): void {
  const query = () => document.getElementById("query");
  if (query()) {
    query()?.focus();
    return;
  }
  location.hash = routeHash("search");
  // The page is drawn after the hash has changed.
  addEventListener("hashchange", () => requestAnimationFrame(() => query()?.focus()), {
    once: true,
  });
}

interface HeadProps {
  page: PageName;
  session: Session;
  onHelp: () => void;
}

function Head({ page, session, onHelp }: HeadProps) {
  const live = useLive();
  const alarms = live.flow?.alarms.length ?? 0;
  return (
    <header class={live.flow?.alarms.some(isCritical) ? "head bad" : "head"}>
      <a class="brand" href={routeHash("flow")} aria-label="Inrush, flow">
        <Logo />
        <span>Inrush</span>
      </a>
      <nav aria-label="Pages">
        {PAGES.filter((name) => isShown(name, page, live.flow)).map((name) => (
          <a key={name} href={routeHash(name)} aria-current={name === page ? "page" : undefined}>
            {TITLES[name]}
            {name === "health" && alarms > 0 && (
              <span class="count" title={`${alarms} alarms`}>
                {alarms}
              </span>
            )}
          </a>
        ))}
      </nav>
      <Connection state={live.state} flow={live.flow} />
      <div class="head-tools">
        <ThemeSwitch />
        <button
          type="button"
          class="icon-button"
          aria-label="Help (?)"
          title="Help (?)"
          onClick={onHelp}
        >
          <Icon name="help" />
        </button>
        {session.user !== null && session.required && <Logout user={session.user} />}
      </div>
    </header>
  );
}

/** A page without anything to show has no tab, unless an address led there. */
function isShown(name: PageName, page: PageName, flow: Flow | null): boolean {
  return name !== "files" || name === page || readsFiles(flow);
}

/** Whether what is shown is live, and whether the account of events adds up. */
function Connection({ state, flow }: { state: StreamState; flow: Flow | null }) {
  let [kind, text] = ["", "connecting"];
  let title = "";
  if (state.kind === "open" && flow) {
    [kind, text, title] = stateOf(flow);
  } else if (state.kind === "lost") {
    [kind, text] = ["warm", `reconnecting since ${clock(state.since_ms)}`];
    title = state.why;
  } else if (state.kind === "refused") {
    [kind, text] = ["bad", "not connected"];
    title = state.error.message;
  }
  return (
    <p class={`connection ${kind}`} role="status" title={title}>
      <span class="dot" aria-hidden="true" />
      {text}
    </p>
  );
}

/** Colour, words and explanation of what runs: the worst of it. */
function stateOf(flow: Flow): [string, string, string] {
  if (!flow.balanced) {
    const words = "The ledger does not add up: report this, with the answer of /api/v1/ledger";
    return ["bad", "not balanced", words];
  }
  const { alarms } = flow;
  const worst = alarms.find(isCritical) ?? alarms[0];
  if (worst) {
    const text = alarms.length === 1 ? "live · 1 alarm" : `live · ${alarms.length} alarms`;
    return [isCritical(worst) ? "bad" : "warm", text, worst.what];
  }
  const words = "received = delivered + quarantined + filtered + pending + dropped, at this moment";
  return ["good", "live · balanced", words];
}

const THEME_ICONS: Record<string, IconName> = { system: "system", light: "sun", dark: "moon" };

function ThemeSwitch() {
  const { theme } = useTheme();
  const label = `Colours: ${theme} (t)`;
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={label}
      title={label}
      onClick={() => setTheme(nextTheme(theme))}
    >
      <Icon name={THEME_ICONS[theme] ?? "system"} />
    </button>
  );
}

function Logout({ user }: { user: string }) {
  const leave = async () => {
    try {
      await post("api/v1/logout");
    } catch (error) {
      notify(words(error), true);
    }
    await refreshSession();
  };
  return (
    <button
      type="button"
      class="icon-button"
      aria-label={`Log out ${user}`}
      title={`Log out ${user}`}
      onClick={() => void leave()}
    >
      <Icon name="leave" />
    </button>
  );
}
