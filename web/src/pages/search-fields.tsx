// The fields of what was found, with their most frequent values; a click asks for one or excludes it.

import type { FieldSummary, Fields } from "../lib/contract";
import { count, short, visible } from "../lib/format";
import { EventText } from "../parts/event-text";
import { Icon } from "../parts/icon";
import type { EventActions } from "./search-events";

interface Props {
  fields: Fields | null;
  actions: EventActions;
}

/** Characters of a value that are shown here; the whole is in the hover and in the query. */
const VALUE_CHARS = 200;

export function FieldPanel({ fields, actions }: Props) {
  return (
    <aside class="panel fields" aria-label="Fields">
      <details open={innerWidth > 900}>
        <summary>
          <h2>
            Fields{" "}
            {fields && (
              <small>
                {fields.fields.length}
                {fields.sampled && " · of a sample"}
              </small>
            )}
          </h2>
        </summary>
        {fields?.fields.map((field) => (
          <Field key={field.name} field={field} actions={actions} />
        ))}
        {!fields && <p class="faint">Known when events are found.</p>}
      </details>
    </aside>
  );
}

function Field({ field, actions }: { field: FieldSummary; actions: EventActions }) {
  const most = Math.max(1, ...field.top.map(([, n]) => n));
  return (
    <details class="field">
      <summary>
        <span class="field-name">
          <EventText text={field.name} />
        </span>
        <span class="num faint" title={`${count(field.distinct)} different values`}>
          {short(field.distinct)}
        </span>
      </summary>
      <ul>
        {field.top.map(([value, n]) => (
          <Value
            key={value}
            name={field.name}
            value={String(value)}
            n={n}
            most={most}
            actions={actions}
          />
        ))}
      </ul>
    </details>
  );
}

interface ValueProps {
  name: string;
  value: string;
  n: number;
  most: number;
  actions: EventActions;
}

function Value({ name, value, n, most, actions }: ValueProps) {
  const shown = visible(value.slice(0, VALUE_CHARS));
  return (
    <li>
      <button
        type="button"
        class="value"
        title={`${name} = ${shown}`}
        aria-label={`Search for ${name}=${shown}, ${count(n)} events`}
        onClick={() => actions.add(name, value, false)}
      >
        <meter min={0} max={most} value={n} aria-hidden="true" />
        <span class="value-text">
          <bdi>{shown || "(empty)"}</bdi>
        </span>
        <span class="num">{short(n)}</span>
      </button>
      <button
        type="button"
        class="icon-button small"
        aria-label={`Exclude ${name}=${shown}`}
        title="Exclude"
        onClick={() => actions.add(name, value, true)}
      >
        <Icon name="minus" />
      </button>
    </li>
  );
}
