// Puts the articles of all pages into this one, under a title page and the contents.
//
// Ids get the page's name before them, so that they stay apart, and links follow.
// A link to a page that is not here leads to the public site.  Solutions stand at the
// end of the book.
async ({ front, parts, site }) => {
  const home = new URL(document.documentElement.dataset.content_root, location.href).href;
  const names = parts.flatMap((part) => part.pages);
  const slug = (name) => name.replaceAll("/", "-");
  const anchor = (name, ident) => (ident ? `${slug(name)}--${ident}` : slug(name));

  const followed = (link, base) => {
    const to = new URL(link, base);
    if (!to.href.startsWith(home)) return to.href;
    const path = to.href.slice(home.length);
    const [, name, ident] = path.match(/^(.*)\.html(?:#(.*))?$/) ?? [];
    if (!names.includes(name)) return site + path;
    return "#" + anchor(name, decodeURIComponent(ident ?? ""));
  };

  const article = async (name) => {
    const base = `${home}${name}.html`;
    const text = await (await fetch(base)).text();
    const page = new DOMParser().parseFromString(text, "text/html");
    const body = page.querySelector("article.bd-article");
    const away = "script, .headerlink, details.formal, .book-pdf, img[hidden], picture > source, .toctree-wrapper";
    for (const node of body.querySelectorAll(away)) node.remove();
    for (const cell of body.querySelectorAll(".cell.tag_hide-cell"))
      if (cell.textContent.includes("%pip")) cell.remove();
    // the code that draws would part a picture from its caption
    for (const code of body.querySelectorAll(".cell:has(figure) > details.hide"))
      code.remove();
    for (const label of body.querySelectorAll(".attn-slider label")) label.hidden = false;
    for (const node of body.querySelectorAll("[id]")) node.id = anchor(name, node.id);
    for (const link of body.querySelectorAll("a[href]"))
      link.setAttribute("href", followed(link.getAttribute("href"), base));
    for (const image of body.querySelectorAll("img[src]")) {
      image.loading = "eager";
      image.src = new URL(image.getAttribute("src"), base).href;
    }
    body.id = slug(name);
    return body;
  };

  const said = (heading) => heading.textContent.replace(/\\[()]/g, "").trim();

  // A line of the contents; its page number is filled in when it is known.
  const line = (heading, ident, level) => {
    const link = document.createElement("a");
    link.className = `line level-${level}`;
    link.href = "#" + ident;
    const words = document.createElement("span");
    words.textContent = said(heading);
    words.className = "words";
    const number = document.createElement("span");
    number.className = "number";
    link.append(words, number);
    return link;
  };

  const solutions = document.createElement("article");
  solutions.className = "bd-article";
  solutions.id = "solutions";
  solutions.innerHTML = "<h1>Solutions</h1>";

  // Moves the solutions of a page there, each below the name of its exercise.
  const put_off = (body, title) => {
    let box = null;
    const own = document.createElement("section");
    own.id = `${body.id}--solutions`;
    for (const node of body.querySelectorAll(".admonition.exercise, .cell.tag_solution")) {
      if (node.matches(".exercise")) box = node;
      if (node === box || !box) continue;
      const number = box.querySelector(".box-label").textContent;
      const [name, there] = ["p", "p"].map((tag) => document.createElement(tag));
      name.id = `${box.id}--solution`;
      name.innerHTML = `<strong><a href="#${box.id}">${number}</a></strong>`;
      there.innerHTML = `<a href="#${name.id}">Solution</a>`;
      node.replaceWith(there);
      own.append(name, node);
    }
    if (!own.children.length) return null;
    const heading = document.createElement("h2");
    heading.append(said(title));
    own.prepend(heading);
    solutions.append(own);
    return { title: said(title), ident: own.id };
  };

  const contents = document.createElement("nav");
  const articles = [];
  const solved = [];
  const outline = [];
  for (const part of parts) {
    const caption = document.createElement("p");
    caption.textContent = part.caption;
    contents.append(caption);
    const entry = { title: part.caption, pages: [] };
    for (const name of part.pages) {
      const body = await article(name);
      articles.push(body);
      const [title, ...headings] = body.querySelectorAll("h1, h2");
      const answers = put_off(body, title);
      if (answers) solved.push(answers);
      const page = { title: said(title), ident: body.id, headings: [] };
      contents.append(line(title, body.id, 1));
      for (const heading of headings) {
        const ident = heading.closest("[id]").id;
        page.headings.push({ title: said(heading), ident });
        contents.append(line(heading, ident, 2));
      }
      entry.pages.push(page);
    }
    outline.push(entry);
  }
  if (solved.length) {
    contents.append(line(solutions.firstChild, solutions.id, 1));
    for (const own of solutions.querySelectorAll("section"))
      contents.append(line(own.firstChild, own.id, 2));
    articles.push(solutions);
    const page = { title: "Solutions", ident: solutions.id, headings: solved };
    outline.push({ title: "Exercises, solved", pages: [page] });
  }

  const cover = document.createElement("header");
  cover.innerHTML = front;
  const title = document.createElement("h1");
  title.textContent = "Contents";
  contents.className = "book-contents";
  cover.className = "title-page";
  contents.prepend(title);
  for (const node of [cover, contents]) node.classList.add("bd-article");
  document.body.replaceChildren(cover, contents, ...articles);
  document.documentElement.dataset.theme = "light";
  for (const fold of document.querySelectorAll("details")) fold.open = true;
  await Promise.all([...document.images].map((image) => image.decode()));
  MathJax.startup.document.options.enableAssistiveMml = false;
  await MathJax.typesetPromise();
  await document.fonts.ready;
  // a link to a place that is not there would be left out in silence
  const there = (link) => document.getElementById(decodeURIComponent(link.hash.slice(1)));
  const links = [...document.querySelectorAll('a[href^="#"]')];
  const dead = links.filter((link) => !there(link)).map((link) => link.hash);
  return { outline, dead };
}
