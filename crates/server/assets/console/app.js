// The operators' console: signing in, the frame, and the pages by their addresses.

import { onSignedOut } from "/assets/base/api.js";
import { replace } from "/assets/base/dom.js";
import { addWords, onLanguage, t } from "/assets/base/i18n.js";
import { createRouter } from "/assets/base/router.js";
import * as session from "/assets/base/session.js";
import "/assets/base/theme.js";
import { loading, problemPanel, problemTitle } from "/assets/base/ui.js";
import { frame, missingPage, page } from "/assets/console/frame.js";
import { allocationPage, allocationsPage, bulkPage } from "/assets/console/pages/allocations.js";
import { accountPage, accountsPage, transferPage } from "/assets/console/pages/accounts.js";
import { auditLogPage, auditPage } from "/assets/console/pages/audit.js";
import { claimPage, claimsPage } from "/assets/console/pages/claims.js";
import { couponPage, couponsPage, userCouponPage } from "/assets/console/pages/coupons.js";
import { eventPage } from "/assets/console/pages/event.js";
import { eventFormPage } from "/assets/console/pages/event-form.js";
import { eventsPage } from "/assets/console/pages/events.js";
import { messagePage, outboxPage } from "/assets/console/pages/outbox.js";
import { requestPage } from "/assets/console/pages/request.js";
import { searchPage } from "/assets/console/pages/search.js";
import { userPage, usersPage } from "/assets/console/pages/users.js";
import { whyPage } from "/assets/console/pages/why.js";
import { refusedPage, signInPage } from "/assets/console/sign-in.js";
import en from "/assets/console/words.en.js";
import ko from "/assets/console/words.ko.js";

addWords({ ko, en });
const app = document.getElementById("app");

const ROUTES = [
  ["/", eventsPage],
  ["/events", eventsPage],
  ["/events/new", eventFormPage],
  ["/events/:eventId", eventPage],
  ["/events/:eventId/users/:userId", whyPage],
  ["/requests/:requestId", requestPage],
  ["/claims", claimsPage],
  ["/claims/:requestId", claimPage],
  ["/allocations", allocationsPage],
  ["/allocations/bulk/:retryId", bulkPage],
  ["/allocations/:allocationId", allocationPage],
  ["/outbox", outboxPage],
  ["/outbox/:messageId", messagePage],
  ["/accounts", accountsPage],
  ["/accounts/:accountId", accountPage],
  ["/transfers/:transferId", transferPage],
  ["/coupons", couponsPage],
  ["/coupons/:couponId", couponPage],
  ["/user-coupons/:userCouponId", userCouponPage],
  ["/users", usersPage],
  ["/users/:userId", userPage],
  ["/audit", auditPage],
  ["/audit-log", auditLogPage],
  ["/search", searchPage],
];

let shell = null;
let moved = false;

async function show({ page: build, path, signal, ...rest }) {
  if (!session.current()) return replace(app, signInPage(start));
  if (!session.mayInspect()) return replace(app, refusedPage(start));
  if (!shell) {
    shell = frame(start);
    replace(app, shell.element);
  }
  shell.at(path);
  replace(shell.content, loading());
  let shown;
  try {
    shown = await build({ path, signal, ...rest });
  } catch (error) {
    if (error.name === "AbortError") return undefined;
    shown = page({ title: problemTitle(error) }, problemPanel(error, { retry: () => router.go(), titled: false }));
  }
  if (signal.aborted) return undefined;
  replace(shell.content, shown);
  const title = shell.content.querySelector("h1");
  document.title = title ? `${title.textContent} · ${t("console.title")}` : t("console.title");
  // Whoever hears the page is told where they have come to; whoever just opened it starts at its top.
  if (moved && title) {
    title.tabIndex = -1;
    title.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
  moved = true;
  return undefined;
}

const router = createRouter({ routes: ROUTES, missing: missingPage, show });

function start() {
  shell = null;
  moved = false;
  document.title = t("console.title");
  return router.go();
}

onSignedOut(() => {
  if (!session.current()) return;
  session.forget();
  start();
});
onLanguage(start);

try {
  await session.begin();
  await start();
} catch (error) {
  replace(app, signInPage(start, error));
}
