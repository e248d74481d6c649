// The operators' console.

import { onSignedOut } from "/assets/base/api.js";
import { h, replace } from "/assets/base/dom.js";
import { addWords, onLanguage, t } from "/assets/base/i18n.js";
import * as session from "/assets/base/session.js";
import "/assets/base/theme.js";
import { problemPanel } from "/assets/base/ui.js";
import en from "/assets/console/words.en.js";
import ko from "/assets/console/words.ko.js";
import { signInPage, refusedPage } from "/assets/console/sign-in.js";

addWords({ ko, en });
const app = document.getElementById("app");

function show() {
  document.title = t("console.title");
  if (!session.current()) return replace(app, signInPage(show));
  if (!session.mayInspect()) return replace(app, refusedPage(show));
  return replace(app, h("main", {}, h("h1", {}, t("console.title"))));
}

onSignedOut(() => {
  session.forget();
  show();
});
onLanguage(show);

try {
  await session.begin();
  show();
} catch (error) {
  replace(app, signInPage(show, error));
}
