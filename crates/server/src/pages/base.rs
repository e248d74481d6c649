//! What every page stands on.

super::assets! {
    "base/api.js"
    "base/base.css"
    "base/chart.js"
    "base/dom.js"
    "base/favicon.svg"
    "base/format.js"
    "base/i18n.js"
    "base/router.js"
    "base/session.js"
    "base/sign-in.js"
    "base/storage.js"
    "base/stream.js"
    "base/theme.js"
    "base/ui.js"
    "base/words.en.js"
    "base/words.ko.js"
}
