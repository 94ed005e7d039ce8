// Reading aloud by the voices that this machine has. Voices that send the text to others are not used.

import { setLabel, setSymbol } from "./elements.js";
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
    setSymbol(this.button, speaking ? "silence" : "speaker");
    setLabel(this.button, speaking ? t("Silence") : t("Listen"));
  }
}
