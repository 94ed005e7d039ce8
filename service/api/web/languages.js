// The two lists of languages: what the server knows, what is chosen, and whether it can be swapped.

export const AUTOMATIC = "auto";

const names = new Intl.DisplayNames(["en"], { type: "language" });

export class Languages {
  /** `from` and `to` are the lists of the page, `button` swaps them; `onChange` hears of each new choice. */
  constructor({ from, to, button, onChange }) {
    Object.assign(this, { from, to, button, onChange });
    this.known = [];
  }

  get source() {
    return this.from.value;
  }

  get target() {
    return this.to.value;
  }

  /** Fill the lists with the languages of a server, which perhaps detects the language of a text. */
  fill(known, detects) {
    // A language is one of its own targets, for clients that want a copy; some languages are only targets.
    this.known = known
      .map((each) => ({ ...each, targets: each.targets.filter((code) => code !== each.code) }))
      .filter(({ targets }) => targets.length > 0);
    this.from.replaceChildren(...this.known.map(({ code, name }) => new Option(name, code)));
    if (detects) this.from.prepend(new Option("Detect language", AUTOMATIC, true, true));
  }

  /** Choose languages, as far as they are known; a list stays as it is without one. */
  choose({ source = this.source, target = this.target } = {}) {
    if ([...this.from.options].some(({ value }) => value === source)) this.from.value = source;
    const from = this.known.find(({ code }) => code === this.source);
    const targets = from ? from.targets : [...new Set(this.known.flatMap((each) => each.targets))].sort();
    const before = this.target;
    const note = (code) => (from?.downloadable?.includes(code) ? " (is downloaded first)" : "");
    this.to.replaceChildren(...targets.map((code) => new Option(this.nameOf(code) + note(code), code)));
    for (const code of [before, target]) if (targets.includes(code)) this.to.value = code;
    this.button.disabled = !this.canSwap();
    this.button.title = this.canSwap() ? "Swap languages" : "This server does not translate in the other direction";
    this.onChange();
  }

  swap() {
    this.choose({ source: this.target, target: this.source });
  }

  canSwap() {
    const reverse = this.known.find(({ code }) => code === this.target);
    return this.source !== AUTOMATIC && Boolean(reverse?.targets.includes(this.source));
  }

  nameOf(code) {
    if (code === AUTOMATIC) return "Detected";
    return this.known.find((each) => each.code === code)?.name ?? names.of(code);
  }
}
