// Workloads: where their events go, who decided that, and what is wrong with their annotations.

import type { PolicyRow, WorkloadRow } from "../lib/files";
import { bytes, count, NONE, plural, visible } from "../lib/format";

/** Rows that are drawn; the filter finds the others. */
const ROWS_SHOWN = 300;

/** What is said of metadata that is not as it should be. */
const METADATA: Record<string, { label: string; words: string }> = {
  awaited: { label: "awaited", words: "its lines wait in their file for the metadata of the pod" },
  missing: { label: "no metadata", words: "its events go without the metadata of the pod" },
  removed: { label: "removed", words: "the pod is gone; its logs are read to their end" },
};

export function WorkloadsPanel({ rows }: { rows: WorkloadRow[] }) {
  const ill = rows.filter((row) => row.workload.problems.length > 0).length;
  return (
    <section class="panel scroll-x workloads-panel" aria-label="Workloads">
      <h2>
        Workloads{" "}
        <small class="faint">
          {plural(rows.length, "container")}
          {ill > 0 && ` · ${count(ill)} with annotations that are ignored`}
        </small>
      </h2>
      <table class="grid">
        <thead>
          <tr>
            <th scope="col">pod, container</th>
            <th scope="col" class="num">
              bytes/s
            </th>
            <th scope="col" class="num">
              lag
            </th>
            <th scope="col">index</th>
            <th scope="col">sourcetype</th>
            <th scope="col">decided by</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, ROWS_SHOWN).map((row) => (
            <WorkloadLine key={row.key} row={row} />
          ))}
        </tbody>
      </table>
      {rows.length > ROWS_SHOWN && (
        <p class="faint list-end">
          {ROWS_SHOWN} of {count(rows.length)}: the filter finds the others.
        </p>
      )}
    </section>
  );
}

function WorkloadLine({ row }: { row: WorkloadRow }) {
  const { workload, policies } = row;
  const metadata = METADATA[workload.metadata];
  return (
    <tr>
      <th scope="row">
        <bdi>
          {workload.pod !== "" && <span class="faint">{visible(workload.namespace)}/</span>}
          <strong>{visible(workload.pod || workload.container)}</strong>
        </bdi>
        {workload.pod !== "" && (
          <small class="faint below">
            {visible(workload.container)}
            {workload.workload !== "" && ` · ${visible(workload.workload)}`}
          </small>
        )}
        {metadata && (
          <span class="tag" title={metadata.words}>
            {metadata.label}
          </span>
        )}
        {workload.problems.map((problem) => (
          <small key={problem} class="below bad-text">
            {visible(problem)}
          </small>
        ))}
      </th>
      <td class="num workload-rate">{row.bytesRate === null ? NONE : bytes(row.bytesRate)}</td>
      <td class="num">{row.lag_bytes > 0 ? bytes(row.lag_bytes) : "0"}</td>
      <td>
        {policies.map((one) => (
          <Named key={one.stream} of={one} value={one.policy.index} />
        ))}
      </td>
      <td>
        {policies.map((one) => (
          <Named key={one.stream} of={one} value={one.policy.sourcetype} />
        ))}
      </td>
      <td>
        {policies.map((one) => (
          <Decided key={one.stream} of={one} />
        ))}
      </td>
    </tr>
  );
}

/** A name of the events of a stream; absent: that of the source. */
function Named({ of, value }: { of: PolicyRow; value: string | undefined }) {
  return (
    <span class="below">
      {of.stream !== "" && <small class="faint">{of.stream} </small>}
      {value === undefined ? <span class="faint">default</span> : visible(value)}
    </span>
  );
}

function Decided({ of: { stream, policy } }: { of: PolicyRow }) {
  return (
    <div>
      {stream !== "" && <small class="faint">{stream} </small>}
      {policy.excluded && <span class="tag warm">excluded</span>}
      {policy.rate_bytes !== undefined && (
        <span class="tag">at most {bytes(policy.rate_bytes)}/s</span>
      )}
      {policy.to !== undefined && <span class="tag">to {visible(policy.to.join(", "))}</span>}
      {policy.decided_by.length === 0 && <span class="faint">configuration</span>}
      {policy.decided_by.map((one) => (
        <span key={one.key} class="tag" title={visible(one.annotation)}>
          {visible(one.key)} <small>{visible(one.place)}</small>
        </span>
      ))}
    </div>
  );
}
