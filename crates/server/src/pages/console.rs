//! The operators' console.

super::assets! {
    "console/app.js"
    "console/console.css"
    "console/index.html"
    "console/sign-in.js"
    "console/words.en.js"
    "console/words.ko.js"
}
