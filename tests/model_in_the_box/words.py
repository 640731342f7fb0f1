"""The word lists and facts from which the box model's documents are made. All our own; ASCII only.

What must stay true: nothing here is copied from a data set. A changed list changes every document that follows
it in a seeded run, so the results in docs/model-in-the-box.md belong to one state of this file.
"""

NAMES = """Ada Alma Anna Arthur Ben Bruno Carl Clara Cleo Dana David Edith Ella Emil Erik Eva Felix Finn Flora
Frida George Greta Hanna Hugo Ida Ines Ivan Jack Jana Jonas Julia Karla Kim Lara Lena Leo Lina Lucas Maria Mark
Martha Max Mia Mila Milo Nadia Nina Noah Nora Olga Oscar Otto Paul Peter Pia Rita Robin Rosa Ruth Sam Sara Simon
Sofia Stella Theo Tilda Tim Tom Uma Vera Viktor Walter Wanda Willa Yara Zoe""".split()

ANIMALS = """cat dog horse rabbit hamster parrot turtle goat sheep pony duck goose mouse fox owl frog hen pig
donkey canary""".split()

COLOURS = "red blue green yellow black white grey brown orange purple pink golden".split()

CITIES = """Athens Berlin Bergen Boston Cairo Chicago Dublin Geneva Hamburg Helsinki Lima Lisbon London Madrid
Milan Munich Naples Nairobi Oslo Paris Porto Prague Quito Riga Rome Seville Sofia Stockholm Sydney Tokyo Toronto
Turin Vienna Warsaw York Zurich""".split()

JOBS = """baker teacher doctor farmer painter pilot sailor singer tailor writer gardener plumber nurse carpenter
librarian engineer cook miner driver judge""".split()

# Words of the list tasks. Sorting is by letters, so the first two letters tell them apart.
LIST_WORDS = """acorn apple bread button candle cherry dagger door eagle egg feather flag garden glass hammer
honey igloo ink jacket jelly kettle knife ladder lemon mirror moon needle nut ocean onion paper pear quill queen
ribbon rope saddle spoon table tower umbrella urn valley violin wagon wheel yacht yogurt zebra zinc""".split()

ITEMS = """apples books candles chairs coats cups eggs flowers hats keys lamps lemons letters maps marbles melons
nails nuts oranges pears pencils plates plums ribbons shells shoes spoons stamps stones tables tickets towels
toys""".split()

PLACES = """the old mill|the harbour|the forest|the market|the castle|the school|the station|the lake|the garden|the
library|the bakery|the hill|the river|the village|the lighthouse|the barn|the museum|the island|the bridge|the
workshop""".replace("\n", " ").split("|")

THINGS = """a small key|a wooden box|a silver coin|an old map|a broken clock|a blue lamp|a letter|a long rope|a heavy
book|a paper boat|a warm loaf of bread|a round stone|a brass bell|a green bottle|a white feather|a red scarf|a
tin drum|a glass bead|a lost glove|a jar of honey""".replace("\n", " ").split("|")

MOODS = "happy tired curious brave quiet proud hungry lonely cheerful careful sleepy hopeful".split()
WEATHER = """rain had fallen all night|the sun was shining|snow lay on the roofs|a cold wind blew|fog covered the
fields|the stars were out|it was a warm afternoon|the leaves were turning red|thunder rolled far away|the morning
was still and clear""".replace("\n", " ").split("|")
LESSONS = """a friend is worth more than gold|small steps lead far|it is better to ask than to guess|patience opens
many doors|sharing makes a meal taste better|nobody is too small to help|the longest way home is still a way
home|listening is the first half of knowing|what is lost may be found by another|a kind word costs
nothing""".replace("\n", " ").split("|")
FEELINGS = "smiled|laughed|nodded|sighed with relief|clapped|sang a little song|waved|took a deep breath".split("|")

TITLES = """The Silent River|A House of Glass|The Last Lantern|Seven Bridges|The Winter Garden|Letters from the Sea|The
Clockmaker|Under the Old Oak|The Paper Moon|A Map of Stars|The Blue Door|The Salt Road|North of Summer|The Copper
Bell|The Quiet Orchard|Songs of the Mill""".replace("\n", " ").split("|")
SURNAMES = """Abel Bauer Berg Brook Cole Dale Ford Frost Gray Hale Hill Holm Kern Lang Marsh North Park Reed Stone
Voss Wells West Wood Young""".split()

TIMER_LABELS = "tea eggs pasta bread laundry nap pizza rice homework break soup cake walk training meeting".split()
MESSAGES = """I will be late|dinner is ready|the train is on time|happy birthday|please call me back|the keys are on the
table|see you tomorrow|the meeting is at nine|thank you for the flowers|I am on my way|do not forget the milk|the
door is open|we are at the station|good luck today|the parcel has arrived|I found your scarf""".replace(
    "\n", " "
).split("|")
SKIES = "sunny cloudy rainy windy foggy snowy clear stormy".split()

# (what is stated, the questions that it answers). Simple and stable facts.
FACTS = [
    ("A spider has eight legs.", ["How many legs does a spider have?", "How many legs has a spider?"]),
    ("An insect has six legs.", ["How many legs does an insect have?", "How many legs has an insect?"]),
    ("A week has seven days.", ["How many days are in a week?", "How long is a week?"]),
    ("A year has twelve months.", ["How many months are in a year?", "How many months does a year have?"]),
    ("A day has twenty-four hours.", ["How many hours are in a day?", "How long is a day?"]),
    ("An hour has sixty minutes.", ["How many minutes are in an hour?", "How long is an hour?"]),
    ("A minute has sixty seconds.", ["How many seconds are in a minute?", "How long is a minute?"]),
    ("A triangle has three sides.", ["How many sides does a triangle have?", "What is a triangle?"]),
    ("A square has four equal sides.", ["How many sides does a square have?", "What is a square?"]),
    ("A hexagon has six sides.", ["How many sides does a hexagon have?", "What is a hexagon?"]),
    ("Water freezes at zero degrees Celsius.", ["When does water freeze?", "At which temperature does water freeze?"]),
    ("Water boils at one hundred degrees Celsius.", ["When does water boil?", "At which temperature does water boil?"]),
    ("The sun is a star.", ["What is the sun?", "Is the sun a star or a planet?"]),
    ("The earth is a planet.", ["What is the earth?", "Is the earth a star or a planet?"]),
    ("The moon goes around the earth.", ["What does the moon go around?", "Where does the moon go?"]),
    ("The earth goes around the sun.", ["What does the earth go around?", "Where does the earth go in a year?"]),
    ("The sky is blue on a clear day.", ["What colour is the sky?", "Which colour has a clear sky?"]),
    ("Grass is green.", ["What colour is grass?", "Which colour has grass?"]),
    ("Snow is white.", ["What colour is snow?", "Which colour has snow?"]),
    ("Blue and yellow make green.", ["What do blue and yellow make?", "How do I mix green?"]),
    ("Red and yellow make orange.", ["What do red and yellow make?", "How do I mix orange?"]),
    ("Red and blue make purple.", ["What do red and blue make?", "How do I mix purple?"]),
    ("Bees make honey.", ["Who makes honey?", "What do bees make?"]),
    ("Cows give milk.", ["Who gives milk?", "What do cows give?"]),
    ("Hens lay eggs.", ["Who lays eggs?", "What do hens lay?"]),
    ("Bread is made of flour, water, salt and yeast.", ["What is bread made of?", "How is bread made?"]),
    ("Paper is made of wood.", ["What is paper made of?", "How is paper made?"]),
    ("Glass is made of sand.", ["What is glass made of?", "How is glass made?"]),
    ("Paris is the capital of France.", ["What is the capital of France?", "Which city is the capital of France?"]),
    ("Rome is the capital of Italy.", ["What is the capital of Italy?", "Which city is the capital of Italy?"]),
    ("Madrid is the capital of Spain.", ["What is the capital of Spain?", "Which city is the capital of Spain?"]),
    ("Berlin is the capital of Germany.", ["What is the capital of Germany?", "Which city is the capital of Germany?"]),
    ("Oslo is the capital of Norway.", ["What is the capital of Norway?", "Which city is the capital of Norway?"]),
    ("Vienna is the capital of Austria.", ["What is the capital of Austria?", "Which city is the capital of Austria?"]),
    ("Lisbon is the capital of Portugal.", ["What is the capital of Portugal?", "Which city is the capital of Portugal?"]),
    ("Tokyo is the capital of Japan.", ["What is the capital of Japan?", "Which city is the capital of Japan?"]),
    ("A young dog is called a puppy.", ["What is a young dog called?", "What do you call a young dog?"]),
    ("A young cat is called a kitten.", ["What is a young cat called?", "What do you call a young cat?"]),
    ("A young horse is called a foal.", ["What is a young horse called?", "What do you call a young horse?"]),
    ("A young sheep is called a lamb.", ["What is a young sheep called?", "What do you call a young sheep?"]),
    ("A byte has eight bits.", ["How many bits are in a byte?", "What is a byte?"]),
    ("A dozen is twelve.", ["How many is a dozen?", "What is a dozen?"]),
]

# What Coterie is and how it is used, from our README.
COTERIE = [
    (
        ["What is Coterie?", "Tell me about Coterie.", "What does Coterie do?"],
        "Coterie is a C++ library with a C interface that runs quantised mixture-of-experts language models from GGUF files.",
    ),
    (
        ["What does the word coterie mean?", "Why is it called Coterie?"],
        "A coterie is the small set of experts that a token meets.",
    ),
    (
        ["What machines is Coterie for?", "Which hardware does Coterie need?"],
        "Coterie is made for the machines people own: several older GPUs in one box, one new GPU, or only a CPU.",
    ),
    (
        ["Who are you?", "What are you?", "Which model are you?", "What is your name?", "Hello! Who are you?"],
        "I am the model in the box, a very small mixture of experts that comes with Coterie.",
    ),
    (
        ["What can you do?", "What can I ask you?", "What are you able to do?"],
        "I can add and subtract small numbers, sort and count short lists, write JSON records, call tools and tell short stories.",
    ),
    (
        ["What can you not do?", "Do you know everything?", "How much do you know?"],
        "I am very small and know only what I was shown. For anything else, please use a larger model.",
    ),
    (
        ["How do I chat with a model?", "How do I talk to a model with Coterie?", "Which command starts a chat?"],
        "Run build/bin/coterie-chat MODEL.gguf to talk to a model.",
    ),
    (
        ["How do I start the server?", "How do I serve a model?", "Which command starts the server?"],
        "Run build/bin/coterie-server MODEL.gguf; it speaks to clients of Ollama and OpenAI.",
    ),
    (
        ["How do I quantise a model?", "How do I make a smaller file?", "Which command quantises a model?"],
        "Run build/bin/coterie quantize IN.gguf OUT.gguf Q4_K_M to quantise a model.",
    ),
    (
        ["How do I look into a GGUF file?", "How do I inspect a model?", "Which command shows the tensors of a file?"],
        "Run build/bin/coterie inspect MODEL.gguf to see its metadata, tensors and types.",
    ),
    (
        ["How do I check a file?", "How do I verify a model file?", "Is my GGUF file whole?"],
        "Run build/bin/coterie verify MODEL.gguf to see whether the file is whole and sane.",
    ),
    (
        ["How do I plan for several GPUs?", "Where would a model lie on my machine?"],
        "Run build/bin/coterie plan MODEL.gguf to see what would lie where and how fast it would be.",
    ),
    (
        ["How do I measure the speed of a model?", "How do I run a benchmark?"],
        "Run build/bin/coterie bench MODEL.gguf to measure the speed of a model.",
    ),
    (
        ["How do I see the demo?", "How do I get started with Coterie?", "What is the first command?"],
        "Run ./dev demo to build Coterie and chat with a small model.",
    ),
    (
        ["How do I run the tests?", "Which command runs the tests of Coterie?"],
        "Run ./dev test to build Coterie and run every test.",
    ),
    (
        ["Which licence has Coterie?", "Is Coterie free?", "What is the licence of Coterie?"],
        "Coterie has the MIT licence, and so have I.",
    ),
    (
        ["What is a mixture of experts?", "What is an expert?", "How does a mixture of experts work?"],
        "In a mixture of experts a router picks a few small networks, the experts, for every token.",
    ),
    (
        ["What is GGUF?", "What is a GGUF file?"],
        "GGUF is a file format that holds the weights and the vocabulary of a language model.",
    ),
    (
        ["What is quantisation?", "What does quantised mean?"],
        "Quantisation stores weights with few bits, so that a model becomes smaller and faster.",
    ),
]

GREETINGS = [
    (["Hello!", "Hello", "Hi!", "Hi", "Hey!", "Hello there!", "Hi there!"], "Hello! How can I help you?"),
    (["Good morning!", "Good morning"], "Good morning! What can I do for you?"),
    (["Good evening!", "Good evening"], "Good evening! What can I do for you?"),
    (["How are you?", "How are you today?", "Are you well?"], "I am well, thank you. How are you?"),
    (["Thank you!", "Thanks!", "Thank you very much.", "Thanks a lot."], "You are welcome!"),
    (["Goodbye!", "Bye!", "See you later!", "Good night!"], "Goodbye! Come back soon."),
    (["I am fine.", "I am well.", "Fine, thanks."], "I am glad to hear that."),
]
