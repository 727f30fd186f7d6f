"""The fixed prompts on which whole models are compared.

In: nothing. Out: `PROMPTS`. Invariant: they never change, so that figures of different days can be compared.
"""

PROMPTS: tuple[str, ...] = (
    "The capital of France is Paris, and the river that runs through it is called the Seine.",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) + fibonacci(n - 2)\n",
    "In 1969 three people flew to the Moon; two of them, Armstrong and Aldrin, walked on it.",
    "Water boils at 100 degrees Celsius at sea level, and at about 70 degrees on top of Mount Everest.",
    "Liebe Gäste, der Zug nach München fährt heute um 17:42 Uhr von Gleis 9 ab.",
    "SELECT name, SUM(price * amount) AS total FROM orders GROUP BY name HAVING total > 1000 ORDER BY total DESC;",
    "Once upon a time there was a lighthouse keeper who wrote down every ship that passed in the night.",
    "If a train leaves at 9:15 and arrives at 11:40, the journey takes 2 hours and 25 minutes.",
    "To make bread, mix 500 g of flour, 10 g of salt, 7 g of yeast and 330 ml of water, and knead for ten minutes.",
    "The mitochondrion is the organelle that makes most of the ATP of a cell by oxidative phosphorylation.",
    "人工智能正在改变我们的生活方式，但是它也带来了新的问题。",
    '{"name": "accord", "devices": [{"kind": "h20", "count": 8}, {"kind": "910b3", "count": 16}], "ready": true}',
    "Dear Sir or Madam, I am writing to complain about the toaster that I bought from your shop last Tuesday.",
    "1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597, 2584, 4181, 6765, 10946",
    "She said that she would come if it didn't rain, but it rained, and so she stayed at home and read a book.",
    "aaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbb AAAAAAAAAAAAAAAA 0000000000000000 ................ !!!!!!!!!!!!!!!!",
)
