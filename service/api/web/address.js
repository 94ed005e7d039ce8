// The page's address: a text and its languages, for links and for the next visit of this tab.

export const LONGEST_TEXT = 2000; // a longer one is kept in the tab, not in its address

/** Return what the address asks for; each part may be undefined. */
export function readAddress() {
  const { q, source, target } = Object.fromEntries(new URLSearchParams(location.search));
  const { state } = history;
  return { text: q ?? state?.text, source, target, isChosen: Boolean(target) && !state?.isGuessed };
}

/** Write what is translated into what; `isChosen` is false if the page has chosen the languages. */
export function writeAddress({ text, source, target, isChosen }) {
  const wanted = new URLSearchParams({ source, target });
  if (text !== "" && text.length <= LONGEST_TEXT) wanted.set("q", text);
  history.replaceState({ text, isGuessed: !isChosen }, "", `?${wanted}`);
}
