"""Names of people and places in forty languages that are written in Latin letters, five of each."""

from typing import Final

NAMES: Final = {
    "Albanian": "Çlirim Përmeti, Gjergj Kastrioti, Shkodër, Durrës, Fatbardha Hoxhë",
    "Azerbaijani": "Əliağa Vahid, Şəki, Gəncə, Nigar Rəfibəyli, Xınalıq",
    "Basque": "Iñaki Goñi, Ibañeta, Aiñoa Arteta, Zuñiga, Oñati",
    "Bosnian": "Edin Džeko, Meša Selimović, Bihać, Goražde, Đenita",
    "Breton": "Añjela Duval, Pêr-Jakez Helias, Gwenc'hlan Le Scouëzec, Kerguéhennec, Roazhoñ",
    "Catalan": "Antoni Gaudí, Mercè Rodoreda, Lluïsa Forrellad, Sant Cugat, Montjuïc",
    "Croatian": "Luka Modrić, Čakovec, Šibenik, Goran Ivanišević, Dražen Žanić",
    "Czech": "Antonín Dvořák, Božena Němcová, Plzeň, Ústí, Jiří Vaněk",
    "Danish": "Søren Ærø, Århus, Hørsholm, Bjørn Nørgaard, Næstved",
    "Dutch": "Daniël Geeraerts, Zoë Verhoeven, Sint-Michiels, Noël Ijzerman, Curaçao",
    "Estonian": "Jüri Õunapuu, Võru, Pärnu, Lõuna-Eesti, Äksi",
    "Faroese": "Tórshavn, Eiði, Kópakonan, Marjun Føroyar, Øravík",
    "Filipino": "Parañaque, Dasmariñas, Niño Muhlach, Santo Niño, Las Piñas",
    "Finnish": "Väinö Linna, Jyväskylä, Hämeenlinna, Äänekoski, Töölö",
    "Galician": "Rosalía de Castro, A Coruña, Ourense, Íñigo Xunqueira, Noreña",
    "German": "Jürgen Müller, Köln, Straßburg, Würzburg, Bärbel Höß",
    "Hausa": "Ɓauchi, Ƙofar Mata, Aisha Ɗanjuma, Zaƙi, Ɗan Fodio",
    "Hawaiian": "Liliʻuokalani, Kāneʻohe, Haleakalā, Lānaʻi, Kaʻiulani",
    "Hungarian": "Győr, Ödön Lechner, Hódmezővásárhely, Kőszeg, Árpád Őze",
    "Icelandic": "Þóra Ægisdóttir, Ísafjörður, Halldór Þorsteinsson, Ólafsfjörður, Örn Ýmisson",
    "Igbo": "Ọnịtsha, Chịnụa, Ụmụahịa, Nnẹwi, Ikẹ Ọbị",
    "Irish": "Sinéad Ní Mhurchú, Dún Laoghaire, Pádraig Ó Súilleabháin, Gráinne, Baile Átha Cliath",
    "Italian": "Forlì, Niccolò Ammaniti, Cefalù, Nicolò Barella, Mondovì",
    "Latvian": "Jānis Bērziņš, Rēzekne, Ķemeri, Daugavpils, Vilis Lācis",
    "Lithuanian": "Šarūnas Jasikevičius, Klaipėda, Žemaitė, Panevėžys, Jurgis Mačiūnas",
    "Luxembourgish": "Jean-Claude Jäger, Diddeleng, Rëmeleng, Biekerech, Käerjeng",
    "Maltese": "Ħal Qormi, Ġorġ Żammit, Żebbuġ, Mġarr, Birżebbuġa",
    "Maori": "Tāmaki Makaurau, Whāngārei, Ōtautahi, Tūī, Kīngi Tūheitia",
    "Norwegian": "Bodø, Tromsø, Åse Kleveland, Ålesund, Jørgen Tjønn",
    "Polish": "Łukasz Żółć, Świętosława Gąska, Poznań, Częstochowa, Stanisław Różewicz",
    "Portuguese": "São Paulo, João Guimarães, Conceição Evaristo, Évora, Inês Gonçalves",
    "Romanian": "Ștefan Țurcanu, Iași, Brâncuși, Târgu Mureș, Mircea Cărtărescu",
    "Samoan": "Apia Sāmoa, Falealupō, Tūlāfale, Mālietoa Tanumafili, Tuālaʻuta",
    "Scottish Gaelic": "Màiri Mhòr, Dùn Èideann, Inbhir Nis, Ùisdean, Loch Nèill",
    "Serbian": "Novak Đoković, Čačak, Niš, Ivo Andrić, Šabac",
    "Slovak": "Ľudovít Štúr, Žilina, Košice, Jozef Tatarka, Ružomberok",
    "Slovene": "France Prešeren, Tomaž Šalamun, Črnomelj, Škofja Loka, Luka Dončić",
    "Turkish": "İsmet İnönü, Şanlıurfa, Çağatay Ulusoy, Eskişehir, Muğla",
    "Vietnamese": "Nguyễn Văn Đức, Huế, Đà Nẵng, Trần Thị Hạnh, Võ Nguyên Giáp",
    "Yoruba": "Ṣàngó, Ọ̀ṣun, Ẹ̀gbá, Wọlé Ṣóyínká, Ìbàdàn",
}

SENTENCES: Final = (
    "{name} was in the newspaper today.",
    "Yesterday we talked about {name}.",
    "Do you know {name}?",
    "I read a book about {name} last year.",
    "Many people like {name} very much.",
)


def named_sentences() -> list[tuple[str, str]]:
    """Return 200 names, each with a sentence that holds it."""
    return [
        (name, sentence.format(name=name))
        for names in NAMES.values()
        for name, sentence in zip(names.split(", "), SENTENCES, strict=True)
    ]
