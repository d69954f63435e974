// Files that are read: how far, how late, and what it has cost; and what each workload has decided.

import { useMemo, useRef, useState } from "preact/hooks";
import type { Files } from "../lib/contract";
import {
  type FileRow,
  FileWindow,
  fittingFiles,
  fittingWorkloads,
  partsOf,
  pollingOf,
  stateOf,
  totalsOf,
} from "../lib/files";
import { bytes, count, duration, NONE, plural, short, visible } from "../lib/format";
import { usePoll } from "../lib/poll";
import { When } from "../parts/when";
import { WorkloadsPanel } from "./files-workloads";

/** Rows that are drawn; the filter finds the others. */
const ROWS_SHOWN = 300;

/** A lag from which on a row is marked, in seconds: the bound of the alarm. */
const LATE_S = 60;

/** A long list is asked for less often. */
const pace = (value: Files | null) =>
  (value?.sources.reduce((n, one) => n + one.files.length, 0) ?? 0) > 500 ? 5_000 : 2_000;

export function FilesPage() {
  const { value, problem } = usePoll<Files>("api/v1/files", pace);
  const window = useRef(new FileWindow());
  const [filter, setFilter] = useState("");
  const [files, workloads] = useMemo(() => {
    if (value !== null) {
      window.current.push(value);
    }
    return [window.current.files(), window.current.workloads()];
  }, [value]);
  const shown = fittingFiles(files, filter);
  const wanted = fittingWorkloads(workloads, filter);
  return (
    <div class="files">
      <div class="page-head">
        <h1>Files</h1>
        <p class="status" role="status">
          {problem ? `No answer: ${problem}` : summary(value)}
        </p>
        <input
          type="search"
          class="filter"
          placeholder="Path, state, pod or source"
          aria-label="Filter files"
          value={filter}
          onInput={(event) => setFilter(event.currentTarget.value)}
        />
      </div>
      {value !== null && (
        <>
          <Polling list={value} />
          <section class="panel scroll-x files-panel" aria-label="Files">
            <FileTable rows={shown.slice(0, ROWS_SHOWN)} named={value.sources.length > 1} />
            <ListEnd shown={shown.length} listed={files.length} all={totalsOf(value).logs} />
            {files.length === 0 && <NoFiles />}
          </section>
        </>
      )}
      {workloads.length > 0 && <WorkloadsPanel rows={wanted} />}
    </div>
  );
}

function summary(value: Files | null): string {
  if (value === null) {
    return "Asking…";
  }
  const { logs, failed, polled, lag_bytes, deleted, missed } = totalsOf(value);
  const parts = [plural(logs, "file")];
  if (failed > 0) {
    parts.push(`${count(failed)} cannot be read`);
  }
  if (polled > 0) {
    parts.push(`${count(polled)} polled`);
  }
  parts.push(lag_bytes > 0 ? `${bytes(lag_bytes)} unread` : "all read");
  if (deleted > 0) {
    parts.push(`${bytes(deleted)} deleted unread`);
  }
  if (missed > 0) {
    parts.push(`${plural(missed, "file")} deleted unopened`);
  }
  return parts.join(" · ");
}

function NoFiles() {
  return (
    <div class="empty">
      <h2>No file matches yet</h2>
      <p>
        New files are found at once. <code>inrush doctor</code> says which patterns match nothing,
        and which files cannot be opened.
      </p>
    </div>
  );
}

function ListEnd(props: { shown: number; listed: number; all: number }) {
  return (
    <>
      {props.shown > ROWS_SHOWN && (
        <p class="faint list-end">
          {ROWS_SHOWN} of {count(props.shown)}: the filter finds the others.
        </p>
      )}
      {props.all > props.listed && (
        <p class="faint list-end">
          The {count(props.listed)} with most unread bytes of {count(props.all)} files.
        </p>
      )}
    </>
  );
}

function Polling({ list }: { list: Files }) {
  const causes = pollingOf(list);
  if (causes.length === 0) {
    return null;
  }
  return (
    <section class="panel" aria-label="Polled">
      <ul class="polling">
        {causes.map(({ source, cause }) => (
          <li key={`${source}\0${cause.reason}`}>
            <span class={cause.reason === "file_system" ? "tag" : "tag warm"}>polled</span>{" "}
            <bdi>{source}</bdi>: {polledWords(cause.files, cause.folder)}, {visible(cause.words)}{" "}
            <small class="faint">
              since <When ms={cause.since_ms} />
            </small>
          </li>
        ))}
      </ul>
    </section>
  );
}

function polledWords(files: number, folder: string | null): string {
  const parts = folder === null ? [] : [`the folder ${visible(folder)}`];
  if (files > 0) {
    parts.push(plural(files, "file"));
  }
  return parts.join(" and ");
}

/** `named`: a row says its source, since there are several. */
function FileTable({ rows, named }: { rows: FileRow[]; named: boolean }) {
  return (
    <table class="grid">
      <thead>
        <tr>
          <th scope="col">file</th>
          <th scope="col">state</th>
          <th scope="col" class="num" title="unread bytes, and the age of the oldest at most">
            lag
          </th>
          <th scope="col" class="num">
            bytes/s
          </th>
          <th scope="col" class="num" title="bytes read of the present file, and its length">
            read / size
          </th>
          <th scope="col" class="num" title="files of this name that were read before">
            rotated
          </th>
          <th scope="col" class="num" title="events that were joined from several pieces">
            joined
          </th>
          <th scope="col">losses</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <FileLine key={row.key} row={row} named={named} />
        ))}
      </tbody>
    </table>
  );
}

function FileLine({ row, named }: { row: FileRow; named: boolean }) {
  const { file } = row;
  const { folder, name } = partsOf(visible(file.path));
  return (
    <tr>
      <th scope="row">
        <bdi>
          <strong>{name}</strong>
          <small class="faint below">{folder}</small>
        </bdi>
        {named && <small class="faint below">{row.source}</small>}
        <Reason row={row} />
      </th>
      <td>
        <State row={row} />
      </td>
      <td class={file.lag_s >= LATE_S ? "num bad-text file-lag" : "num file-lag"}>
        {file.lag_bytes > 0 ? bytes(file.lag_bytes) : "0"}
        {file.lag_bytes > 0 && <small class="faint below">≤ {duration(file.lag_s * 1000)}</small>}
      </td>
      <td class="num file-rate">{row.bytesRate === null ? NONE : bytes(row.bytesRate)}</td>
      <td class="num">{row.share === null ? NONE : <Position row={row} />}</td>
      <td class="num">
        {count(file.generation)}
        {file.waiting > 0 && <small class="faint below">{count(file.waiting)} waiting</small>}
      </td>
      <td class="num">{short(file.joined)}</td>
      <td>
        {row.losses.map((one) => (
          <span key={one.name} class="tag warm">
            {one.text} <small>{one.name}</small>
          </span>
        ))}
      </td>
    </tr>
  );
}

function State({ row: { file } }: { row: FileRow }) {
  const { label, words, ill } = stateOf(file.state);
  return (
    <span class={ill ? "tag warm" : "tag"} title={words}>
      {label}
    </span>
  );
}

function Reason({ row: { file } }: { row: FileRow }) {
  if (file.reason === null) {
    return null;
  }
  const { ill } = stateOf(file.state);
  return (
    <small class={ill ? "below bad-text" : "below"}>
      {visible(file.reason)}
      {file.since_ms !== null && (
        <span class="faint">
          {" "}
          since <When ms={file.since_ms} />
        </span>
      )}
    </small>
  );
}

function Position({ row: { file, share } }: { row: FileRow }) {
  return (
    <>
      {bytes(file.position)} <small class="faint">/ {bytes(file.size)}</small>
      <span class={(share ?? 1) < 1 ? "file-share" : "file-share whole"} aria-hidden="true">
        <span style={{ width: `${Math.min(100, (share ?? 0) * 100).toFixed(1)}%` }} />
      </span>
    </>
  );
}
