// Reading aloud by the voices that this machine has, where those that send the text to others are not used; and
// dictation by the browser's own recognition of speech.

import { setFace } from "./elements.js";
import { t } from "./texts.js";

export class SpeechButton {
  /** `spoken` returns {text, language}: what there is to read now. */
  constructor(button, spoken) {
    this.button = button;
    this.spoken = spoken;
    this.speaking = false;
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
    const spoke = this.speaking;
    speechSynthesis.cancel();
    this.show(false);
    if (spoke) return;
    const { text, language } = this.spoken();
    const utterance = Object.assign(new SpeechSynthesisUtterance(text), { voice: this.voice(), lang: language });
    for (const event of ["end", "error"]) utterance.addEventListener(event, () => this.show(false));
    this.show(true);
    speechSynthesis.speak(utterance);
  }

  show(speaking) {
    this.speaking = speaking;
    if (speaking) setFace(this.button, "silence", t("Silence"));
    else setFace(this.button, "speaker", t("Listen"));
  }
}

export class Dictation {
  /**
   * `begin()` returns {text, language}: what stands there already, and what will be spoken. `onHear(text, isFinal)`
   * hears of the whole text with each change of what was heard; `onFail(reason)` why no microphone can be used.
   */
  constructor(button, { begin, onHear, onFail }) {
    Object.assign(this, { button, begin, onHear, onFail });
    this.recognition = null;
    this.Recognition = globalThis.SpeechRecognition ?? globalThis.webkitSpeechRecognition;
    button.hidden = !this.Recognition;
    button.addEventListener("click", () => (this.recognition ? this.stop() : this.start()));
  }

  start() {
    const { text, language } = this.begin();
    const before = text === "" || /\s$/.test(text) ? text : `${text}\n`;
    const settings = { lang: language, continuous: true, interimResults: true };
    const recognition = (this.recognition = Object.assign(new this.Recognition(), settings));
    const on = (name, take) =>
      recognition.addEventListener(name, (event) => this.recognition === recognition && take(event));
    on("result", ({ results }) => {
      // What ends with a silence is a line of its own: recognisers write no full stops.
      const heard = [...results].map(({ 0: best, isFinal }) => best.transcript.trim() + (isFinal ? "\n" : " "));
      this.onHear(before + heard.join("").trimEnd(), results[results.length - 1].isFinal);
    });
    on("error", ({ error }) => {
      if (["no-speech", "aborted"].includes(error)) return; // it ends, and is started again
      this.stop();
      this.onFail(error);
    });
    on("end", () => this.start());
    recognition.start();
    this.show();
  }

  stop() {
    const { recognition } = this;
    this.recognition = null;
    recognition?.stop();
    this.show();
  }

  show() {
    if (this.recognition) setFace(this.button, "silence", t("Stop listening"));
    else setFace(this.button, "microphone", t("Speak. The browser may send your voice to its maker."));
  }
}
