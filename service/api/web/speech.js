// Reading aloud by the voices that this machine has. Voices that send the text to others are not used.

const LISTEN = "Listen";
const SILENCE = "Silence";

export class SpeechButton {
  /** `spoken` returns {text, language}: what there is to read now. */
  constructor(button, spoken) {
    this.button = button;
    this.spoken = spoken;
    if (!globalThis.speechSynthesis) return;
    button.addEventListener("click", () => this.toggle());
    speechSynthesis.addEventListener?.("voiceschanged", () => this.update());
    this.update();
  }

  voice() {
    const { language } = this.spoken();
    const voices = globalThis.speechSynthesis?.getVoices() ?? [];
    return voices.find(({ lang, localService }) => localService && lang.split(/[-_]/)[0] === language);
  }

  /** Show the button if there is a voice for the language, and something to read. */
  update() {
    this.button.hidden = !this.voice();
    this.button.disabled = this.spoken().text.trim() === "";
  }

  toggle() {
    const speaks = this.button.textContent === SILENCE;
    speechSynthesis.cancel();
    this.button.textContent = LISTEN;
    if (speaks) return;
    const { text, language } = this.spoken();
    const utterance = Object.assign(new SpeechSynthesisUtterance(text), { voice: this.voice(), lang: language });
    utterance.addEventListener("end", () => (this.button.textContent = LISTEN));
    utterance.addEventListener("error", () => (this.button.textContent = LISTEN));
    this.button.textContent = SILENCE;
    speechSynthesis.speak(utterance);
  }
}
