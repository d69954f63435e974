// Keeps a fault of one page from taking the others with it.

import { Component, type ComponentChildren } from "preact";

interface Props {
  /** A new page begins anew. */
  page: string;
  children: ComponentChildren;
}

interface State {
  fault: string | null;
  page: string;
}

export class Boundary extends Component<Props, State> {
  override state: State = { fault: null, page: this.props.page };

  static override getDerivedStateFromError(error: unknown): Partial<State> {
    return { fault: error instanceof Error ? error.message : String(error) };
  }

  static override getDerivedStateFromProps(props: Props, state: State): Partial<State> | null {
    return props.page === state.page ? null : { page: props.page, fault: null };
  }

  override render() {
    if (this.state.fault === null) {
      return this.props.children;
    }
    return (
      <section class="panel empty" role="alert">
        <h2>This page has a fault</h2>
        <p>{this.state.fault}</p>
        <button type="button" class="button" onClick={() => location.reload()}>
          Load it again
        </button>
      </section>
    );
  }
}
