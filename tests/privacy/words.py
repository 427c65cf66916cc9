# SPDX-License-Identifier: Apache-2.0
"""The words of the canaries: first names, surnames, companies and numbers in letters.

None of them is a word of a library's. A surname belongs to one place alone, so that it names the place where it got out.
"""


def _words(text):
    return tuple(text.split())


SURNAMES = _words(
    """
Abernathy Achterberg Adebayo Agnarsson Ahlquist Akinwande Albuquerque Aldersey Alvarenga Amundsen Andrzejewski Anquetil
Apostolou Arbuthnot Arguelles Armitage Arsenault Asadullah Ashworth Auchincloss Avakian Ayodele Azikiwe Babatunde Bagratuni
Balasubramanian Bancroft Banerjee Barraclough Bartolomeu Basilashvili Batenburg Baumgartner Beauchamp Belisario Benavides
Bergstrom Bhattacharya Bielawski Birkenstock Blackwood Blumenthal Bogdanovic Bonaventura Borkowski Bouchard Braithwaite
Brankovic Brzezinski Buchanan Burlingame Bystrova Cadwallader Calderon Campanella Carmichael Carruthers Castellano Cavendish
Chakraborty Chamberlain Chandrasekhar Charbonneau Chaudhary Chernyshev Cholmondeley Chukwuemeka Cienfuegos Clutterbuck
Colquhoun Constantinou Copperfield Corrigan Cracknell Cunningham Czajkowski Dabrowski Dalgaard Dalrymple Darjeeli Davenport
Delacroix Demirtas Desrosiers Devereux Dhaliwal Dijkgraaf Dimitrov Domanski Donoghue Dostoyevna Drummond Dubrovsky Duquesne
Dzhugashi Eberhardt Echeverria Edgeworth Eichenwald Ekwueme Ellsworth Engebretsen Entwistle Erzberger Escalante Esterhazy
Etcheverry Everingham Faircloth Falkenberg Farquhar Featherston Fernandes Feuerstein Finkelstein Fitzwilliam Fjeldstad
Fontanelle Fothergill Frandsen Friedlander Fujimori Gabrielyan Galbraith Gallagher Garibaldi Gebremariam Geoghegan
Gerasimov Ghazaryan Giannopoulos Gilchrist Glockenspiel Gogolewski Goldsworthy Gonsalves Gorbachuk Gottschalk Grabowski
Granville Grigoryan Grosvenor Grunewald Gudmundsson Guillemot Gunawardena Gustafsson Guttierez Habermann Hadjigeorgiou
Halvorsen Hammarskjold Hannigan Haraldsen Hargreaves Harrington Hasegawa Hatzopoulos Hawthorne Heatherington Heinemann
Hellstrom Henriksen Hernandez Hesselbach Hibberd Higginbotham Hildebrandt Hochstetter Hollingsworth Honeyman Horvathne
Hrushevsky Huddleston Hutchinson Iakovleva Ibragimov Ignatiev Ilyushin Ingebrigtsen Iskander Ivanovich Iwamatsu Jablonski
Jacobsen Jagodzinski Jankowski Jayasuriya Jelinek Jimenez Johannsdottir Jovanovic Juszczak Kaczmarek Kalashnik Kamenetsky
Karageorgis Karlsson Kasprzak Kavanagh Kazantzakis Kennaway Khachaturian Khrushchov Kierkegaard Kilpatrick Kinsella
Kirkpatrick Kjaergaard Klimenko Knatchbull Kobayashi Kolodziej Komarovsky Kontogiorgis Kopernik Korolenko Kosciuszko
Kowalczyk Krasnova Kristjansson Kropotkin Kruszewski Kubasiewicz Kuznetsov Kwiatkowski Labuschagne Lagerkvist Lancaster
Langenscheidt Larrazabal Lascelles Lattimore Laurenson Lavoisier Leatherby Lefebvre Leszczynska Leventhal Lewandowski
Lichnowsky Liebermann Lillehammer Lindqvist Lisowski Llewellyn Loewenstein Lomonosov Longbottom Lowenthal Lubomirski
Lundgren Lyubimov Macallister MacGillivray Madariaga Mafokeng Magnusson Majewski Makarenko Malinowski Mandelbaum Mannerheim
Marchetti Markovic Marszalek Mathiesen Matsumoto Maximilian Mayakovsky McAllister McCullough Mediterano Meiklejohn Melnikova
Mendeleeva Merriweather Mickiewicz Mikkelsen Milosevic Mirzoyan Mitsubayashi Mkrtchyan Mogilevsky Montefiore Montgomery
Morozova Mountbatten Mukherjee Mulholland Munkhbayar Murgatroyd Mussorgsky Mwangangi Nakamura Narayanan Natividad Ndlovu
Nechayeva Neumayer Nightingale Nikolaidis Nowakowska Nunziata Obolensky Oconnell Odhiambo Ogunbanjo Okonkwo Oldenburg
Olszewski Onyekachi Oppenheim Orlandini Osterhagen Ostrowski Ottolenghi Oyelaran Paderewska Palaiologos Panagopoulos
Papadakis Paraskevi Parmentier Pasternak Patterson Pawlowski Pemberton Penhaligon Petrosyan Pettigrew Phillimore Piotrowski
Plamondon Podolski Pokrovsky Ponomarenko Popielarz Postlethwaite Prendergast Pritchard Przybylski Pumphrey Quartermain
Quesnel Quintanilla Rabinowitz Radcliffe Ramanujan Rasmussen Ravensdale Redgrave Reichenbach Remarque Rheinhardt Richelieu
Rimbauld Robespierre Rocheforte Rodrigues Rokossovsky Romaniuk Rosenkrantz Rostropova Rothschild Roubicek Rutherford
Saakashvili Sadowski Salinger Sandoval Santangelo Saravanan Sargsyan Savonarola Schwarzkopf Sczepanski Semyonova Severinsen
Shackleton Shalikashvili Shevchuk Shostakova Siddiqui Sienkiewicz Sikorskaya Silverstein Simonsen Skarsgard Sklodowska
Slaughterby Smirnoff Sobolewska Solzhenitsa Sorensen Spasskaya Staniland Stavropoulos Steenbergen Stefansdottir Sternheim
Stolypin Strachey Stravinska Subramaniam Sullivan Sutherland Svensson Szczepanik Szymborska
"""
)

FIRST_NAMES = _words(
    """
Adelheid Aleksandra Annegret Apollonia Barnaby Bartholomew Beatrix Bernadette Bronislava Caspian Cathleen Christabel
Clementina Cordelia Dagmara Delphine Desdemona Ekaterina Eleonora Emmeline Ermintrude Evangeline Ferdinand Florentina
Gaudenzia Genevieve Giovanna Gwendolyn Hendrika Henrietta Hermione Ignatius Isidora Jacqueline Jaroslav Josephine Katarzyna
Konstantin Kunigunde Leocadia Leopoldine Ludmilla Magdalena Marguerite Mechthild Melisande Mieczyslaw Montserrat Nathaniel
Octavian Ottoline Parthenope Perpetua Philippa Praxedis Quentin Radomir Rosamunde Rosalind Scholastica Seraphina Siegfried
Theodora Thorsten Tristram Ulrike Valentina Veronica Wilhelmina Winifred Xanthippe Yevgenia Zdzislawa Zenobia
"""
)

COMPANIES = _words(
    """
Aeroflotte Allianzer Bayerwerke Bertelsmann Bombardier Bridgestone Carrefour Commerzbank Deloitte Electrolux Enelgas
Ericsson Ferrovial Gazpromen Heineken Iberdrola Kawasaki Lufthansa Michelin Novartis Panasonic Pirelli Raiffeisen Repsolgas
Santander Schaeffler Siemensia Sparkasse Stellantis Sumitomo Swarovski Thyssenkrupp Unilever Vattenfall Volkswagen Wienerberger
"""
)

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
