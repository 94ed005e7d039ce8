"""Everyday English sentences of 3 to 40 words, each one sentence, for load."""

from typing import Final

LANGUAGES: Final = {"source": "en", "target": "fr"}
"""Languages between which the embedded model translates the sentences."""

SENTENCES: Final = (
    "See you tomorrow.",
    "It is raining.",
    "Where is everybody?",
    "I missed the bus.",
    "The kettle is boiling.",
    "Please close the door quietly.",
    "How much does this cost?",
    "My brother lives in Canada.",
    "She forgot her umbrella again.",
    "We are out of milk and bread.",
    "Could you repeat that more slowly?",
    "The train to Lyon leaves at noon.",
    "He has been learning French for years.",
    "There is a small garden behind the house.",
    "I will call you as soon as I arrive.",
    "The children are playing football in the park.",
    "What time does the pharmacy open on Sundays?",
    "My grandmother used to bake bread every Friday morning.",
    "They decided to walk home because the weather was nice.",
    "Turn left at the church and then take the second street.",
    "The doctor told him to drink more water and sleep longer.",
    "I would like a table for four by the window, please.",
    "Her new job starts in September, so she has to move soon.",
    "We watched an old film about two sailors lost at sea.",
    "The shop on the corner sells the best cheese in town.",
    "If you lend me your bicycle, I can be back before dinner.",
    "Nobody noticed that the lights in the hall had been left on.",
    "The museum is closed on Mondays, but the gardens stay open all week.",
    "He opened the letter slowly, because he was afraid of what it might say.",
    "Our neighbours are very kind and always water the plants when we are away.",
    "The lesson was difficult, but the teacher explained everything with a great deal of patience.",
    "I have never understood why people stand in line before the gate has even opened.",
    "Although the soup was too salty, everyone at the table said that it was delicious.",
    "She put the keys in her bag, locked the door and ran down the stairs.",
    "The bridge was built more than a hundred years ago and is still used every day.",
    "You can pay by card or in cash, but the machine does not give any change.",
    "When the snow finally melted, the river rose so quickly that the road had to be closed.",
    "My father, who hardly ever travels, has just booked a trip to Portugal for the whole family.",
    "Please send me the contract before Thursday so that I have enough time to read it carefully.",
    "The new library has three floors, a quiet reading room and a small café with a sunny terrace.",
    "He told us that the meeting had been moved to next week because two of the managers were ill.",
    "We planted tomatoes, beans and a few herbs, and by the end of July we could eat from the garden.",
    "The company announced that it would hire fifty people next year, most of them in the north of the country.",
    "If the parcel has not arrived by Wednesday, please write to us again and we will send you another one.",
    "She had lived in so many cities that she no longer knew which of them she should call her home.",
    "The old man at the market sells honey from his own bees and always has time for a short conversation.",
    (
        "After the concert we walked along the river for an hour and talked about everything that had "
        "happened that year."
    ),
    (
        "The mechanic said that the engine was fine, but that the brakes should be replaced before we drove "
        "into the mountains."
    ),
    "I was about to leave the office when the telephone rang and a customer asked me where her order had gone.",
    (
        "Because the ferry was late, we spent the whole afternoon in a little harbour café, playing cards and"
        " drinking far too much coffee."
    ),
    (
        "The students had to write an essay about the book, but most of them had only seen the film and hoped"
        " that nobody would notice."
    ),
    (
        "Many people believe that cats do not care about their owners, yet ours waits behind the door every "
        "evening until the last of us comes home."
    ),
    (
        "The hotel was not as close to the beach as the advertisement had promised, but the rooms were clean,"
        " the staff were friendly and breakfast was excellent."
    ),
    (
        "When I was a child, we spent every summer in a village without electricity, and the only sounds at "
        "night were the wind and the distant bells of the cows."
    ),
    (
        "The city has decided to close the main square to cars, to plant two hundred trees along the avenue "
        "and to build a tram line that will connect the station with the university."
    ),
    (
        "Before you sign anything, make sure that you have read the small print, asked about the hidden costs"
        " and, above all, understood how much notice you have to give if you ever want to leave."
    ),
    (
        "My aunt kept every letter that she had ever received in a wooden box under her bed, and on winter "
        "evenings she would take one out and read it to us by the fire."
    ),
    (
        "The scientists measured the temperature of the lake every morning for ten years and found that it "
        "had risen slowly but steadily, even in the years when the summers had been unusually cold."
    ),
    (
        "He promised that he would finish the work by Friday, but then his computer broke down, his daughter "
        "caught the flu, and in the end we had to wait for two more weeks."
    ),
    (
        "It took us nearly three hours to find the cottage, because the map was older than the road, the signs "
        "had fallen down, and the only person whom we met on the way had never heard of it before."
    ),
)
