// Leaves a part of the page as it is while it is out of sight, so that numbers which nobody sees
// cost nothing; it is brought up to date as it comes into sight. In sight it takes every other
// change: of two numbers a second below each other the eye follows one.

import { Component, type ComponentChildren, createRef } from "preact";

interface Props {
  class?: string;
  children: ComponentChildren;
}

export class WhenSeen extends Component<Props> {
  #place = createRef<HTMLDivElement>();
  #observer: IntersectionObserver | null = null;
  #seen = true;
  #turn = false;

  override componentDidMount(): void {
    this.#observer = new IntersectionObserver((changes) => {
      this.#seen = changes.at(-1)?.isIntersecting ?? true;
      if (this.#seen) {
        this.forceUpdate();
      }
    });
    if (this.#place.current) {
      this.#observer.observe(this.#place.current);
    }
  }

  override componentWillUnmount(): void {
    this.#observer?.disconnect();
  }

  override shouldComponentUpdate(): boolean {
    this.#turn = !this.#turn;
    return this.#seen && this.#turn;
  }

  override render() {
    return (
      <div ref={this.#place} class={this.props.class ?? ""}>
        {this.props.children}
      </div>
    );
  }
}
