#ifdef PEG
struct T_SRC {
	char *fl; int ln;
} T_SRC[NTRANS];

void
tr_2_src(int m, char *file, int ln)
{	T_SRC[m].fl = file;
	T_SRC[m].ln = ln;
}

void
putpeg(int n, int m)
{	printf("%5d	trans %4d ", m, n);
	printf("%s:%d\n",
		T_SRC[n].fl, T_SRC[n].ln);
}
#endif

void
settable(void)
{	Trans *T;
	Trans *settr(int, int, int, int, int, char *, int, int, int);

	trans = (Trans ***) emalloc(4*sizeof(Trans **));

	/* proctype 2: :init: */

	trans[2] = (Trans **) emalloc(17*sizeof(Trans *));

	T = trans[ 2][15] = settr(493,2,0,0,0,"ATOMIC", 0, 2, 0);
	T->nxt	= settr(493,2,1,0,0,"ATOMIC", 0, 2, 0);
	trans[2][1]	= settr(479,2,7,3,3,"n = 0", 0, 2, 0);
	trans[2][8]	= settr(486,2,7,1,0,".(goto)", 0, 2, 0);
	T = trans[2][7] = settr(485,2,0,0,0,"DO", 0, 2, 0);
	T = T->nxt	= settr(485,2,2,0,0,"DO", 0, 2, 0);
	    T->nxt	= settr(485,2,5,0,0,"DO", 0, 2, 0);
	trans[2][2]	= settr(480,2,3,4,0,"((n<2))", 0, 2, 0);
	trans[2][3]	= settr(481,2,4,5,5,"(run leader(n))", 0, 2, 0);
	trans[2][4]	= settr(482,2,7,6,6,"n = (n+1)", 0, 2, 0);
	trans[2][5]	= settr(483,2,13,2,0,"else", 0, 2, 0);
	trans[2][6]	= settr(484,2,13,1,0,"goto :b22", 0, 2, 0);
	trans[2][9]	= settr(487,2,13,1,0,"break", 0, 2, 0);
	T = trans[2][13] = settr(491,2,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(491,2,10,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(491,2,12,0,0,"IF", 0, 2, 0);
	trans[2][10]	= settr(488,2,11,7,0,"((1>0))", 0, 2, 0);
	trans[2][11]	= settr(489,2,14,8,8,"(run failing_over())", 0, 2, 0);
	trans[2][14]	= settr(492,0,16,1,0,".(goto)", 0, 2, 0);
	trans[2][12]	= settr(490,2,14,2,0,"else", 0, 2, 0);
	trans[2][16]	= settr(494,0,0,9,9,"-end-", 0, 3500, 0);

	/* proctype 1: failing_over */

	trans[1] = (Trans **) emalloc(51*sizeof(Trans *));

	trans[1][48]	= settr(476,0,47,1,0,".(goto)", 0, 2, 0);
	T = trans[1][47] = settr(475,0,0,0,0,"DO", 0, 2, 0);
	    T->nxt	= settr(475,0,46,0,0,"DO", 0, 2, 0);
	T = trans[ 1][46] = settr(474,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(474,2,1,0,0,"ATOMIC", 1, 2, 0);
	trans[1][1]	= settr(429,2,29,10,10,"((failovers<1))", 1, 2, 0); /* m: 2 -> 29,0 */
	reached1[2] = 1;
	trans[1][2]	= settr(0,0,0,0,0,"failovers = (failovers+1)",0,0,0);
	trans[1][3]	= settr(0,0,0,0,0,"who = 0",0,0,0);
	trans[1][30]	= settr(458,2,29,1,0,".(goto)", 1, 2, 0);
	T = trans[1][29] = settr(457,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(457,2,4,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(457,2,27,0,0,"DO", 1, 2, 0);
	trans[1][4]	= settr(432,2,25,11,11,"((who<2))", 1, 2, 0); /* m: 5 -> 25,0 */
	reached1[5] = 1;
	trans[1][5]	= settr(0,0,0,0,0,"ended[who] = 1",0,0,0);
	T = trans[ 1][25] = settr(453,0,0,0,0,"sub-sequence", 1, 2, 0);
	T->nxt	= settr(453,0,21,0,0,"sub-sequence", 1, 2, 0);
	trans[1][22]	= settr(450,2,21,1,0,".(goto)", 1, 2, 0);
	T = trans[1][21] = settr(449,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(449,2,6,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(449,2,19,0,0,"DO", 1, 2, 0);
	trans[1][6]	= settr(434,2,11,12,12,"((each<2))", 1, 2, 0); /* m: 7 -> 11,0 */
	reached1[7] = 1;
	trans[1][7]	= settr(0,0,0,0,0,"shared[each] = (shared[each]&~((1<<who)))",0,0,0);
	T = trans[1][11] = settr(439,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(439,2,8,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(439,2,10,0,0,"IF", 1, 2, 0);
	trans[1][8]	= settr(436,2,16,13,13,"((exclusive[each]==(who+1)))", 1, 2, 0); /* m: 9 -> 16,0 */
	reached1[9] = 1;
	trans[1][9]	= settr(0,0,0,0,0,"exclusive[each] = 0",0,0,0);
	trans[1][12]	= settr(440,2,16,1,0,".(goto)", 1, 2, 0);
	trans[1][10]	= settr(438,2,16,2,0,"else", 1, 2, 0);
	T = trans[1][16] = settr(444,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(444,2,13,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(444,2,15,0,0,"IF", 1, 2, 0);
	trans[1][13]	= settr(441,2,21,14,14,"((turnstile[each]==(who+1)))", 1, 2, 0); /* m: 14 -> 21,0 */
	reached1[14] = 1;
	trans[1][14]	= settr(0,0,0,0,0,"turnstile[each] = 0",0,0,0);
	trans[1][17]	= settr(445,2,18,1,0,".(goto)", 1, 2, 0); /* m: 18 -> 0,21 */
	reached1[18] = 1;
	trans[1][15]	= settr(443,2,18,2,0,"else", 1, 2, 0);
	trans[1][18]	= settr(446,2,21,15,15,"each = (each+1)", 1, 2, 0);
	trans[1][19]	= settr(447,2,24,2,0,"else", 1, 2, 0);
	trans[1][20]	= settr(448,2,24,1,0,"goto :b20", 1, 2, 0); /* m: 24 -> 0,29 */
	reached1[24] = 1;
	trans[1][23]	= settr(451,2,24,1,0,"break", 1, 2, 0);
	trans[1][24]	= settr(452,2,29,16,16,"each = 0", 1, 2, 0); /* m: 26 -> 0,29 */
	reached1[26] = 1;
	trans[1][26]	= settr(0,0,0,0,0,"who = (who+1)",0,0,0);
	trans[1][27]	= settr(455,2,32,2,0,"else", 1, 2, 0);
	trans[1][28]	= settr(456,2,32,1,0,"goto :b19", 1, 2, 0); /* m: 32 -> 0,42 */
	reached1[32] = 1;
	trans[1][31]	= settr(459,2,32,1,0,"break", 1, 2, 0);
	trans[1][32]	= settr(460,2,42,17,17,"each = 0", 1, 2, 0);
	trans[1][43]	= settr(471,2,42,1,0,".(goto)", 1, 2, 0);
	T = trans[1][42] = settr(470,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(470,2,33,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(470,2,40,0,0,"DO", 1, 2, 0);
	trans[1][33]	= settr(461,2,36,18,0,"((each<2))", 1, 2, 0);
	T = trans[1][36] = settr(464,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(464,2,34,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(464,2,35,0,0,"IF", 1, 2, 0);
	trans[1][34]	= settr(462,2,42,19,19,"fence[each] = before[each]", 1, 2, 0); /* m: 38 -> 0,42 */
	reached1[38] = 1;
	trans[1][37]	= settr(465,2,38,1,0,".(goto)", 1, 2, 0); /* m: 38 -> 0,42 */
	reached1[38] = 1;
	trans[1][35]	= settr(463,2,42,20,20,"(1)", 1, 2, 0); /* m: 38 -> 42,0 */
	reached1[38] = 1;
	trans[1][38]	= settr(466,2,42,21,21,"doubt[each] = 1", 1, 2, 0); /* m: 39 -> 0,42 */
	reached1[39] = 1;
	trans[1][39]	= settr(0,0,0,0,0,"each = (each+1)",0,0,0);
	trans[1][40]	= settr(468,2,44,2,0,"else", 1, 2, 0);
	trans[1][41]	= settr(469,2,44,1,0,"goto :b21", 1, 2, 0);
	trans[1][44]	= settr(472,2,45,1,0,"break", 1, 2, 0);
	trans[1][45]	= settr(473,0,47,22,22,"who = 0", 1, 2, 0);
	trans[1][49]	= settr(477,0,50,1,0,"break", 0, 2, 0);
	trans[1][50]	= settr(478,0,0,23,23,"-end-", 0, 3500, 0);

	/* proctype 0: leader */

	trans[0] = (Trans **) emalloc(430*sizeof(Trans *));

	T = trans[ 0][18] = settr(17,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(17,2,1,0,0,"ATOMIC", 1, 2, 0);
	trans[0][1]	= settr(0,2,13,24,24,"s = 0", 1, 2, 0); /* m: 2 -> 0,13 */
	reached0[2] = 1;
	trans[0][2]	= settr(0,0,0,0,0,"shown = 0",0,0,0);
	trans[0][3]	= settr(0,0,0,0,0,"passed = 0",0,0,0);
	trans[0][4]	= settr(0,0,0,0,0,"wrote = 0",0,0,0);
	trans[0][5]	= settr(0,0,0,0,0,"statements = 0",0,0,0);
	trans[0][6]	= settr(0,0,0,0,0,"passed_before = 0",0,0,0);
	trans[0][7]	= settr(0,0,0,0,0,"wrote_before = 0",0,0,0);
	trans[0][14]	= settr(13,2,13,1,0,".(goto)", 1, 2, 0);
	T = trans[0][13] = settr(12,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(12,2,8,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(12,2,11,0,0,"DO", 1, 2, 0);
	trans[0][8]	= settr(7,2,13,25,25,"((i<2))", 1, 2, 0); /* m: 9 -> 13,0 */
	reached0[9] = 1;
	trans[0][9]	= settr(0,0,0,0,0,"seen[i] = 0",0,0,0);
	trans[0][10]	= settr(0,0,0,0,0,"i = (i+1)",0,0,0);
	trans[0][11]	= settr(10,2,16,2,0,"else", 1, 2, 0);
	trans[0][12]	= settr(11,2,16,1,0,"goto :b0", 1, 2, 0); /* m: 16 -> 0,29 */
	reached0[16] = 1;
	trans[0][15]	= settr(14,2,16,1,0,"break", 1, 2, 0);
	trans[0][16]	= settr(15,4,29,26,26,"i = 0", 1, 2, 0); /* m: 17 -> 0,29 */
	reached0[17] = 1;
	trans[0][17]	= settr(0,0,0,0,0,"ended[me] = 0",0,0,0);
	T = trans[0][29] = settr(28,0,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(28,0,21,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(28,0,25,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(28,0,27,0,0,"IF", 0, 2, 0);
	T = trans[ 0][21] = settr(20,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(20,2,19,0,0,"ATOMIC", 1, 2, 0);
	trans[0][19]	= settr(18,0,34,27,27,"(((acquisitions<3)&&(acquisitions>=me)))", 1, 2, 0); /* m: 20 -> 34,0 */
	reached0[20] = 1;
	trans[0][20]	= settr(0,0,0,0,0,"acquisitions = (acquisitions+1)",0,0,0);
	trans[0][22]	= settr(21,0,34,1,0,"goto acquire", 0, 2, 0);
	trans[0][30]	= settr(29,0,34,1,0,".(goto)", 0, 2, 0);
	T = trans[ 0][25] = settr(24,2,0,0,0,"ATOMIC", 0, 2, 0);
	T->nxt	= settr(24,2,23,0,0,"ATOMIC", 0, 2, 0);
	trans[0][23]	= settr(22,0,385,28,28,"((work>0))", 0, 2, 0); /* m: 24 -> 385,0 */
	reached0[24] = 1;
	trans[0][24]	= settr(0,0,0,0,0,"work = (work-1)",0,0,0);
	trans[0][26]	= settr(25,0,385,1,0,"goto transaction", 0, 2, 0);
	trans[0][27]	= settr(26,0,428,2,0,"else", 0, 2, 0);
	trans[0][28]	= settr(27,0,428,1,0,"goto gone", 0, 2, 0);
	T = trans[0][34] = settr(33,0,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(33,0,31,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(33,0,32,0,0,"IF", 0, 2, 0);
	trans[0][31]	= settr(30,0,42,29,29,"s = 0", 0, 2, 0);
	trans[0][35]	= settr(34,0,42,1,0,".(goto)", 0, 2, 0);
	trans[0][32]	= settr(31,0,42,30,30,"((2>1))", 0, 2, 0); /* m: 33 -> 42,0 */
	reached0[33] = 1;
	trans[0][33]	= settr(0,0,0,0,0,"s = 1",0,0,0);
	T = trans[0][42] = settr(41,0,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(41,0,38,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(41,0,41,0,0,"IF", 0, 2, 0);
	T = trans[ 0][38] = settr(37,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(37,2,36,0,0,"ATOMIC", 1, 2, 0);
	trans[0][36]	= settr(35,4,18,31,31,"(ended[me])", 1, 2, 0); /* m: 37 -> 18,0 */
	reached0[37] = 1;
	trans[0][37]	= settr(36,0,18,1,0,"goto idle", 1, 2, 0);
	trans[0][43]	= settr(42,0,110,1,0,".(goto)", 0, 2, 0);
	T = trans[ 0][41] = settr(40,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(40,2,39,0,0,"ATOMIC", 1, 2, 0);
	trans[0][39]	= settr(38,0,110,32,32,"((!(ended[me])&&(turnstile[s]==0)))", 1, 2, 0); /* m: 40 -> 110,0 */
	reached0[40] = 1;
	trans[0][40]	= settr(0,0,0,0,0,"turnstile[s] = (me+1)",0,0,0);
	trans[0][111]	= settr(110,0,110,1,0,".(goto)", 0, 2, 0);
	T = trans[0][110] = settr(109,0,0,0,0,"DO", 0, 2, 0);
	T = T->nxt	= settr(109,0,46,0,0,"DO", 0, 2, 0);
	T = T->nxt	= settr(109,0,50,0,0,"DO", 0, 2, 0);
	T = T->nxt	= settr(109,0,86,0,0,"DO", 0, 2, 0);
	    T->nxt	= settr(109,0,109,0,0,"DO", 0, 2, 0);
	T = trans[ 0][46] = settr(45,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(45,2,44,0,0,"ATOMIC", 1, 2, 0);
	trans[0][44]	= settr(43,4,18,33,33,"(ended[me])", 1, 2, 0); /* m: 45 -> 18,0 */
	reached0[45] = 1;
	trans[0][45]	= settr(44,0,18,1,0,"goto idle", 1, 2, 0);
	T = trans[ 0][50] = settr(49,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(49,2,47,0,0,"ATOMIC", 1, 2, 0);
	trans[0][47]	= settr(46,4,170,34,34,"(((!(ended[me])&&(shared[s]==0))&&(exclusive[s]==0)))", 1, 2, 0); /* m: 48 -> 170,0 */
	reached0[48] = 1;
	trans[0][48]	= settr(0,0,0,0,0,"exclusive[s] = (me+1)",0,0,0);
	trans[0][49]	= settr(48,0,170,1,0,"goto :b1", 1, 2, 0);
	T = trans[ 0][86] = settr(85,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(85,2,51,0,0,"ATOMIC", 1, 2, 0);
	trans[0][51]	= settr(50,2,85,35,0,"((!(ended[me])&&(shared[s]!=0)))", 1, 2, 0);
	T = trans[ 0][85] = settr(84,0,0,0,0,"sub-sequence", 1, 2, 0);
	T->nxt	= settr(84,0,81,0,0,"sub-sequence", 1, 2, 0);
	trans[0][82]	= settr(81,2,81,1,0,".(goto)", 1, 2, 0);
	T = trans[0][81] = settr(80,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(80,2,52,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(80,2,79,0,0,"DO", 1, 2, 0);
	trans[0][52]	= settr(51,2,76,36,0,"((other<2))", 1, 2, 0);
	T = trans[0][76] = settr(75,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(75,2,53,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(75,2,75,0,0,"IF", 1, 2, 0);
	trans[0][53]	= settr(52,2,74,37,37,"((shared[s]&(1<<other)))", 1, 2, 0); /* m: 54 -> 74,0 */
	reached0[54] = 1;
	trans[0][54]	= settr(0,0,0,0,0,"ended[other] = 1",0,0,0);
	T = trans[ 0][74] = settr(73,0,0,0,0,"sub-sequence", 1, 2, 0);
	T->nxt	= settr(73,0,70,0,0,"sub-sequence", 1, 2, 0);
	trans[0][71]	= settr(70,2,70,1,0,".(goto)", 1, 2, 0);
	T = trans[0][70] = settr(69,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(69,2,55,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(69,2,68,0,0,"DO", 1, 2, 0);
	trans[0][55]	= settr(54,2,60,38,38,"((each<2))", 1, 2, 0); /* m: 56 -> 60,0 */
	reached0[56] = 1;
	trans[0][56]	= settr(0,0,0,0,0,"shared[each] = (shared[each]&~((1<<other)))",0,0,0);
	T = trans[0][60] = settr(59,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(59,2,57,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(59,2,59,0,0,"IF", 1, 2, 0);
	trans[0][57]	= settr(56,2,65,39,39,"((exclusive[each]==(other+1)))", 1, 2, 0); /* m: 58 -> 65,0 */
	reached0[58] = 1;
	trans[0][58]	= settr(0,0,0,0,0,"exclusive[each] = 0",0,0,0);
	trans[0][61]	= settr(60,2,65,1,0,".(goto)", 1, 2, 0);
	trans[0][59]	= settr(58,2,65,2,0,"else", 1, 2, 0);
	T = trans[0][65] = settr(64,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(64,2,62,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(64,2,64,0,0,"IF", 1, 2, 0);
	trans[0][62]	= settr(61,2,70,40,40,"((turnstile[each]==(other+1)))", 1, 2, 0); /* m: 63 -> 70,0 */
	reached0[63] = 1;
	trans[0][63]	= settr(0,0,0,0,0,"turnstile[each] = 0",0,0,0);
	trans[0][66]	= settr(65,2,67,1,0,".(goto)", 1, 2, 0); /* m: 67 -> 0,70 */
	reached0[67] = 1;
	trans[0][64]	= settr(63,2,67,2,0,"else", 1, 2, 0);
	trans[0][67]	= settr(66,2,70,41,41,"each = (each+1)", 1, 2, 0);
	trans[0][68]	= settr(67,2,73,2,0,"else", 1, 2, 0);
	trans[0][69]	= settr(68,2,73,1,0,"goto :b3", 1, 2, 0); /* m: 73 -> 0,81 */
	reached0[73] = 1;
	trans[0][72]	= settr(71,2,73,1,0,"break", 1, 2, 0);
	trans[0][73]	= settr(72,2,81,42,42,"each = 0", 1, 2, 0); /* m: 78 -> 0,81 */
	reached0[78] = 1;
	trans[0][77]	= settr(76,2,78,1,0,".(goto)", 1, 2, 0); /* m: 78 -> 0,81 */
	reached0[78] = 1;
	trans[0][75]	= settr(74,2,78,2,0,"else", 1, 2, 0);
	trans[0][78]	= settr(77,2,81,43,43,"other = (other+1)", 1, 2, 0);
	trans[0][79]	= settr(78,2,83,2,0,"else", 1, 2, 0);
	trans[0][80]	= settr(79,2,83,1,0,"goto :b2", 1, 2, 0);
	trans[0][83]	= settr(82,2,84,1,0,"break", 1, 2, 0);
	trans[0][84]	= settr(83,0,110,44,44,"other = 0", 1, 2, 0);
	T = trans[ 0][109] = settr(108,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(108,2,87,0,0,"ATOMIC", 1, 2, 0);
	trans[0][87]	= settr(86,2,107,45,0,"(!(ended[me]))", 1, 2, 0);
	T = trans[ 0][107] = settr(106,0,0,0,0,"sub-sequence", 1, 2, 0);
	T->nxt	= settr(106,0,103,0,0,"sub-sequence", 1, 2, 0);
	trans[0][104]	= settr(103,2,103,1,0,".(goto)", 1, 2, 0);
	T = trans[0][103] = settr(102,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(102,2,88,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(102,2,101,0,0,"DO", 1, 2, 0);
	trans[0][88]	= settr(87,2,93,46,46,"((each<2))", 1, 2, 0); /* m: 89 -> 93,0 */
	reached0[89] = 1;
	trans[0][89]	= settr(0,0,0,0,0,"shared[each] = (shared[each]&~((1<<me)))",0,0,0);
	T = trans[0][93] = settr(92,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(92,2,90,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(92,2,92,0,0,"IF", 1, 2, 0);
	trans[0][90]	= settr(89,2,98,47,47,"((exclusive[each]==(me+1)))", 1, 2, 0); /* m: 91 -> 98,0 */
	reached0[91] = 1;
	trans[0][91]	= settr(0,0,0,0,0,"exclusive[each] = 0",0,0,0);
	trans[0][94]	= settr(93,2,98,1,0,".(goto)", 1, 2, 0);
	trans[0][92]	= settr(91,2,98,2,0,"else", 1, 2, 0);
	T = trans[0][98] = settr(97,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(97,2,95,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(97,2,97,0,0,"IF", 1, 2, 0);
	trans[0][95]	= settr(94,2,103,48,48,"((turnstile[each]==(me+1)))", 1, 2, 0); /* m: 96 -> 103,0 */
	reached0[96] = 1;
	trans[0][96]	= settr(0,0,0,0,0,"turnstile[each] = 0",0,0,0);
	trans[0][99]	= settr(98,2,100,1,0,".(goto)", 1, 2, 0); /* m: 100 -> 0,103 */
	reached0[100] = 1;
	trans[0][97]	= settr(96,2,100,2,0,"else", 1, 2, 0);
	trans[0][100]	= settr(99,2,103,49,49,"each = (each+1)", 1, 2, 0);
	trans[0][101]	= settr(100,2,106,2,0,"else", 1, 2, 0);
	trans[0][102]	= settr(101,2,106,1,0,"goto :b4", 1, 2, 0); /* m: 106 -> 0,18 */
	reached0[106] = 1;
	trans[0][105]	= settr(104,2,106,1,0,"break", 1, 2, 0);
	trans[0][106]	= settr(105,4,18,50,50,"each = 0", 1, 2, 0); /* m: 108 -> 0,18 */
	reached0[108] = 1;
	trans[0][108]	= settr(107,0,18,1,0,"goto idle", 1, 2, 0);
	trans[0][112]	= settr(111,0,170,1,0,"break", 0, 2, 0);
	T = trans[0][170] = settr(169,0,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(169,0,115,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(169,0,146,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(169,0,169,0,0,"IF", 0, 2, 0);
	T = trans[ 0][115] = settr(114,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(114,2,113,0,0,"ATOMIC", 1, 2, 0);
	trans[0][113]	= settr(112,4,18,51,51,"(ended[me])", 1, 2, 0); /* m: 114 -> 18,0 */
	reached0[114] = 1;
	trans[0][114]	= settr(113,0,18,1,0,"goto idle", 1, 2, 0);
	trans[0][171]	= settr(170,0,18,1,0,".(goto)", 0, 2, 0);
	T = trans[ 0][146] = settr(145,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(145,2,116,0,0,"ATOMIC", 1, 2, 0);
	trans[0][116]	= settr(115,2,145,52,52,"(!(ended[me]))", 1, 2, 0); /* m: 117 -> 145,0 */
	reached0[117] = 1;
	trans[0][117]	= settr(0,0,0,0,0,"before[s] = fence[s]",0,0,0);
	trans[0][118]	= settr(0,0,0,0,0,"fence[s] = (fence[s]+( (doubt[s]) -> (4) : (1) ))",0,0,0);
	trans[0][119]	= settr(0,0,0,0,0,"doubt[s] = 0",0,0,0);
	trans[0][120]	= settr(0,0,0,0,0,"term[s] = fence[s]",0,0,0);
	trans[0][121]	= settr(0,0,0,0,0,"assert((owner[((s*((3+(4*1))+1))+fence[s])]==0))",0,0,0);
	trans[0][122]	= settr(0,0,0,0,0,"owner[((s*((3+(4*1))+1))+fence[s])] = (me+1)",0,0,0);
	trans[0][123]	= settr(0,0,0,0,0,"assert((fence[s]>shut[s]))",0,0,0);
	trans[0][124]	= settr(0,0,0,0,0,"shut[s] = fence[s]",0,0,0);
	trans[0][125]	= settr(0,0,0,0,0,"work = 1",0,0,0);
	T = trans[ 0][145] = settr(144,0,0,0,0,"sub-sequence", 1, 2, 0);
	T->nxt	= settr(144,0,141,0,0,"sub-sequence", 1, 2, 0);
	trans[0][142]	= settr(141,2,141,1,0,".(goto)", 1, 2, 0);
	T = trans[0][141] = settr(140,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(140,2,126,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(140,2,139,0,0,"DO", 1, 2, 0);
	trans[0][126]	= settr(125,2,131,53,53,"((each<2))", 1, 2, 0); /* m: 127 -> 131,0 */
	reached0[127] = 1;
	trans[0][127]	= settr(0,0,0,0,0,"shared[each] = (shared[each]&~((1<<me)))",0,0,0);
	T = trans[0][131] = settr(130,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(130,2,128,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(130,2,130,0,0,"IF", 1, 2, 0);
	trans[0][128]	= settr(127,2,136,54,54,"((exclusive[each]==(me+1)))", 1, 2, 0); /* m: 129 -> 136,0 */
	reached0[129] = 1;
	trans[0][129]	= settr(0,0,0,0,0,"exclusive[each] = 0",0,0,0);
	trans[0][132]	= settr(131,2,136,1,0,".(goto)", 1, 2, 0);
	trans[0][130]	= settr(129,2,136,2,0,"else", 1, 2, 0);
	T = trans[0][136] = settr(135,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(135,2,133,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(135,2,135,0,0,"IF", 1, 2, 0);
	trans[0][133]	= settr(132,2,141,55,55,"((turnstile[each]==(me+1)))", 1, 2, 0); /* m: 134 -> 141,0 */
	reached0[134] = 1;
	trans[0][134]	= settr(0,0,0,0,0,"turnstile[each] = 0",0,0,0);
	trans[0][137]	= settr(136,2,138,1,0,".(goto)", 1, 2, 0); /* m: 138 -> 0,141 */
	reached0[138] = 1;
	trans[0][135]	= settr(134,2,138,2,0,"else", 1, 2, 0);
	trans[0][138]	= settr(137,2,141,56,56,"each = (each+1)", 1, 2, 0);
	trans[0][139]	= settr(138,2,143,2,0,"else", 1, 2, 0);
	trans[0][140]	= settr(139,2,143,1,0,"goto :b5", 1, 2, 0);
	trans[0][143]	= settr(142,2,144,1,0,"break", 1, 2, 0);
	trans[0][144]	= settr(143,0,18,57,57,"each = 0", 1, 2, 0);
	T = trans[ 0][169] = settr(168,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(168,2,147,0,0,"ATOMIC", 1, 2, 0);
	trans[0][147]	= settr(146,2,167,58,0,"(!(ended[me]))", 1, 2, 0);
	T = trans[ 0][167] = settr(166,0,0,0,0,"sub-sequence", 1, 2, 0);
	T->nxt	= settr(166,0,163,0,0,"sub-sequence", 1, 2, 0);
	trans[0][164]	= settr(163,2,163,1,0,".(goto)", 1, 2, 0);
	T = trans[0][163] = settr(162,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(162,2,148,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(162,2,161,0,0,"DO", 1, 2, 0);
	trans[0][148]	= settr(147,2,153,59,59,"((each<2))", 1, 2, 0); /* m: 149 -> 153,0 */
	reached0[149] = 1;
	trans[0][149]	= settr(0,0,0,0,0,"shared[each] = (shared[each]&~((1<<me)))",0,0,0);
	T = trans[0][153] = settr(152,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(152,2,150,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(152,2,152,0,0,"IF", 1, 2, 0);
	trans[0][150]	= settr(149,2,158,60,60,"((exclusive[each]==(me+1)))", 1, 2, 0); /* m: 151 -> 158,0 */
	reached0[151] = 1;
	trans[0][151]	= settr(0,0,0,0,0,"exclusive[each] = 0",0,0,0);
	trans[0][154]	= settr(153,2,158,1,0,".(goto)", 1, 2, 0);
	trans[0][152]	= settr(151,2,158,2,0,"else", 1, 2, 0);
	T = trans[0][158] = settr(157,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(157,2,155,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(157,2,157,0,0,"IF", 1, 2, 0);
	trans[0][155]	= settr(154,2,163,61,61,"((turnstile[each]==(me+1)))", 1, 2, 0); /* m: 156 -> 163,0 */
	reached0[156] = 1;
	trans[0][156]	= settr(0,0,0,0,0,"turnstile[each] = 0",0,0,0);
	trans[0][159]	= settr(158,2,160,1,0,".(goto)", 1, 2, 0); /* m: 160 -> 0,163 */
	reached0[160] = 1;
	trans[0][157]	= settr(156,2,160,2,0,"else", 1, 2, 0);
	trans[0][160]	= settr(159,2,163,62,62,"each = (each+1)", 1, 2, 0);
	trans[0][161]	= settr(160,2,166,2,0,"else", 1, 2, 0);
	trans[0][162]	= settr(161,2,166,1,0,"goto :b6", 1, 2, 0); /* m: 166 -> 0,18 */
	reached0[166] = 1;
	trans[0][165]	= settr(164,2,166,1,0,"break", 1, 2, 0);
	trans[0][166]	= settr(165,4,18,63,63,"each = 0", 1, 2, 0); /* m: 168 -> 0,18 */
	reached0[168] = 1;
	trans[0][168]	= settr(167,0,18,1,0,"goto idle", 1, 2, 0);
	trans[0][172]	= settr(171,0,18,1,0,"goto idle", 0, 2, 0);
	trans[0][386]	= settr(385,0,385,1,0,".(goto)", 0, 2, 0);
	T = trans[0][385] = settr(384,0,0,0,0,"DO", 0, 2, 0);
	T = T->nxt	= settr(384,0,173,0,0,"DO", 0, 2, 0);
	T = T->nxt	= settr(384,0,314,0,0,"DO", 0, 2, 0);
	T = T->nxt	= settr(384,0,356,0,0,"DO", 0, 2, 0);
	T = T->nxt	= settr(384,0,359,0,0,"DO", 0, 2, 0);
	T = T->nxt	= settr(384,0,382,0,0,"DO", 0, 2, 0);
	    T->nxt	= settr(384,0,383,0,0,"DO", 0, 2, 0);
	trans[0][173]	= settr(172,0,181,64,64,"((statements<2))", 0, 2, 0); /* m: 174 -> 181,0 */
	reached0[174] = 1;
	trans[0][174]	= settr(0,0,0,0,0,"statements = (statements+1)",0,0,0);
	trans[0][175]	= settr(0,0,0,0,0,"passed_before = passed",0,0,0);
	trans[0][176]	= settr(0,0,0,0,0,"wrote_before = wrote",0,0,0);
	T = trans[0][181] = settr(180,0,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(180,0,177,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(180,0,179,0,0,"IF", 0, 2, 0);
	trans[0][177]	= settr(176,0,294,65,65,"((term[0]>0))", 0, 2, 0); /* m: 178 -> 294,0 */
	reached0[178] = 1;
	trans[0][178]	= settr(0,0,0,0,0,"s = 0",0,0,0);
	trans[0][182]	= settr(181,0,294,1,0,".(goto)", 0, 2, 0);
	trans[0][179]	= settr(178,0,294,66,66,"(((2>1)&&(term[(2-1)]>0)))", 0, 2, 0); /* m: 180 -> 294,0 */
	reached0[180] = 1;
	trans[0][180]	= settr(0,0,0,0,0,"s = (2-1)",0,0,0);
	T = trans[0][294] = settr(293,0,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(293,0,185,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(293,0,188,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(293,0,205,0,0,"IF", 0, 2, 0);
	T = trans[ 0][185] = settr(184,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(184,2,183,0,0,"ATOMIC", 1, 2, 0);
	trans[0][183]	= settr(182,0,385,67,67,"(((passed&(1<<s))&&!(ended[me])))", 1, 2, 0); /* m: 184 -> 385,0 */
	reached0[184] = 1;
	trans[0][184]	= settr(0,0,0,0,0,"wrote = (wrote|(1<<s))",0,0,0);
	trans[0][295]	= settr(294,0,385,1,0,".(goto)", 0, 2, 0);
	T = trans[ 0][188] = settr(187,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(187,2,186,0,0,"ATOMIC", 1, 2, 0);
	trans[0][186]	= settr(185,4,18,68,68,"(ended[me])", 1, 2, 0); /* m: 187 -> 18,0 */
	reached0[187] = 1;
	trans[0][187]	= settr(186,0,18,1,0,"goto idle", 1, 2, 0);
	T = trans[ 0][205] = settr(204,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(204,2,189,0,0,"ATOMIC", 1, 2, 0);
	trans[0][189]	= settr(188,2,203,69,0,"((!((passed&(1<<s)))&&!(ended[me])))", 1, 2, 0);
	T = trans[0][203] = settr(202,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(202,2,190,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(202,2,202,0,0,"IF", 1, 2, 0);
	trans[0][190]	= settr(189,2,198,70,70,"((0&&!(shown)))", 1, 2, 0); /* m: 191 -> 198,0 */
	reached0[191] = 1;
	trans[0][191]	= settr(0,0,0,0,0,"shown = 1",0,0,0);
	trans[0][192]	= settr(0,0,0,0,0,"i = 0",0,0,0);
	trans[0][199]	= settr(198,2,198,1,0,".(goto)", 1, 2, 0);
	T = trans[0][198] = settr(197,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(197,2,193,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(197,2,196,0,0,"DO", 1, 2, 0);
	trans[0][193]	= settr(192,2,198,71,71,"((i<2))", 1, 2, 0); /* m: 194 -> 198,0 */
	reached0[194] = 1;
	trans[0][194]	= settr(0,0,0,0,0,"seen[i] = fence[i]",0,0,0);
	trans[0][195]	= settr(0,0,0,0,0,"i = (i+1)",0,0,0);
	trans[0][196]	= settr(195,2,201,2,0,"else", 1, 2, 0);
	trans[0][197]	= settr(196,2,201,1,0,"goto :b8", 1, 2, 0); /* m: 201 -> 0,235 */
	reached0[201] = 1;
	trans[0][200]	= settr(199,2,201,1,0,"break", 1, 2, 0);
	trans[0][201]	= settr(200,4,235,72,72,"i = 0", 1, 2, 0); /* m: 204 -> 0,235 */
	reached0[204] = 1;
	trans[0][204]	= settr(203,0,235,73,73,".(goto)", 1, 2, 0);
	trans[0][202]	= settr(201,2,204,2,0,"else", 1, 2, 0);
	T = trans[0][235] = settr(234,0,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(234,0,208,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(234,0,211,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(234,0,234,0,0,"IF", 0, 2, 0);
	T = trans[ 0][208] = settr(207,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(207,2,206,0,0,"ATOMIC", 1, 2, 0);
	trans[0][206]	= settr(205,4,18,74,74,"(ended[me])", 1, 2, 0); /* m: 207 -> 18,0 */
	reached0[207] = 1;
	trans[0][207]	= settr(206,0,18,1,0,"goto idle", 1, 2, 0);
	trans[0][236]	= settr(235,0,292,1,0,".(goto)", 0, 2, 0);
	T = trans[ 0][211] = settr(210,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(210,2,209,0,0,"ATOMIC", 1, 2, 0);
	trans[0][209]	= settr(208,0,292,75,75,"(((!(ended[me])&&(turnstile[s]==0))&&(exclusive[s]==0)))", 1, 2, 0); /* m: 210 -> 292,0 */
	reached0[210] = 1;
	trans[0][210]	= settr(0,0,0,0,0,"shared[s] = (shared[s]|(1<<me))",0,0,0);
	T = trans[ 0][234] = settr(233,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(233,2,212,0,0,"ATOMIC", 1, 2, 0);
	trans[0][212]	= settr(211,2,232,76,76,"((!(ended[me])&&((turnstile[s]!=0)||(exclusive[s]!=0))))", 1, 2, 0);
	T = trans[ 0][232] = settr(231,0,0,0,0,"sub-sequence", 1, 2, 0);
	T->nxt	= settr(231,0,228,0,0,"sub-sequence", 1, 2, 0);
	trans[0][229]	= settr(228,2,228,1,0,".(goto)", 1, 2, 0);
	T = trans[0][228] = settr(227,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(227,2,213,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(227,2,226,0,0,"DO", 1, 2, 0);
	trans[0][213]	= settr(212,2,218,77,77,"((each<2))", 1, 2, 0); /* m: 214 -> 218,0 */
	reached0[214] = 1;
	trans[0][214]	= settr(0,0,0,0,0,"shared[each] = (shared[each]&~((1<<me)))",0,0,0);
	T = trans[0][218] = settr(217,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(217,2,215,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(217,2,217,0,0,"IF", 1, 2, 0);
	trans[0][215]	= settr(214,2,223,78,78,"((exclusive[each]==(me+1)))", 1, 2, 0); /* m: 216 -> 223,0 */
	reached0[216] = 1;
	trans[0][216]	= settr(0,0,0,0,0,"exclusive[each] = 0",0,0,0);
	trans[0][219]	= settr(218,2,223,1,0,".(goto)", 1, 2, 0);
	trans[0][217]	= settr(216,2,223,2,0,"else", 1, 2, 0);
	T = trans[0][223] = settr(222,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(222,2,220,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(222,2,222,0,0,"IF", 1, 2, 0);
	trans[0][220]	= settr(219,2,228,79,79,"((turnstile[each]==(me+1)))", 1, 2, 0); /* m: 221 -> 228,0 */
	reached0[221] = 1;
	trans[0][221]	= settr(0,0,0,0,0,"turnstile[each] = 0",0,0,0);
	trans[0][224]	= settr(223,2,225,1,0,".(goto)", 1, 2, 0); /* m: 225 -> 0,228 */
	reached0[225] = 1;
	trans[0][222]	= settr(221,2,225,2,0,"else", 1, 2, 0);
	trans[0][225]	= settr(224,2,228,80,80,"each = (each+1)", 1, 2, 0);
	trans[0][226]	= settr(225,2,231,2,0,"else", 1, 2, 0);
	trans[0][227]	= settr(226,2,231,1,0,"goto :b9", 1, 2, 0); /* m: 231 -> 0,18 */
	reached0[231] = 1;
	trans[0][230]	= settr(229,2,231,1,0,"break", 1, 2, 0);
	trans[0][231]	= settr(230,4,18,81,81,"each = 0", 1, 2, 0); /* m: 233 -> 0,18 */
	reached0[233] = 1;
	trans[0][233]	= settr(232,0,18,1,0,"goto idle", 1, 2, 0);
	T = trans[0][292] = settr(291,0,0,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(291,0,239,0,0,"IF", 0, 2, 0);
	T = T->nxt	= settr(291,0,262,0,0,"IF", 0, 2, 0);
	    T->nxt	= settr(291,0,291,0,0,"IF", 0, 2, 0);
	T = trans[ 0][239] = settr(238,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(238,2,237,0,0,"ATOMIC", 1, 2, 0);
	trans[0][237]	= settr(236,4,18,82,82,"(ended[me])", 1, 2, 0); /* m: 238 -> 18,0 */
	reached0[238] = 1;
	trans[0][238]	= settr(237,0,18,1,0,"goto idle", 1, 2, 0);
	trans[0][293]	= settr(292,0,385,1,0,".(goto)", 0, 2, 0);
	T = trans[ 0][262] = settr(261,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(261,2,240,0,0,"ATOMIC", 1, 2, 0);
	trans[0][240]	= settr(239,2,260,83,83,"(((!(ended[me])&&0)&&(seen[s]!=fence[s])))", 1, 2, 0);
	T = trans[ 0][260] = settr(259,0,0,0,0,"sub-sequence", 1, 2, 0);
	T->nxt	= settr(259,0,256,0,0,"sub-sequence", 1, 2, 0);
	trans[0][257]	= settr(256,2,256,1,0,".(goto)", 1, 2, 0);
	T = trans[0][256] = settr(255,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(255,2,241,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(255,2,254,0,0,"DO", 1, 2, 0);
	trans[0][241]	= settr(240,2,246,84,84,"((each<2))", 1, 2, 0); /* m: 242 -> 246,0 */
	reached0[242] = 1;
	trans[0][242]	= settr(0,0,0,0,0,"shared[each] = (shared[each]&~((1<<me)))",0,0,0);
	T = trans[0][246] = settr(245,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(245,2,243,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(245,2,245,0,0,"IF", 1, 2, 0);
	trans[0][243]	= settr(242,2,251,85,85,"((exclusive[each]==(me+1)))", 1, 2, 0); /* m: 244 -> 251,0 */
	reached0[244] = 1;
	trans[0][244]	= settr(0,0,0,0,0,"exclusive[each] = 0",0,0,0);
	trans[0][247]	= settr(246,2,251,1,0,".(goto)", 1, 2, 0);
	trans[0][245]	= settr(244,2,251,2,0,"else", 1, 2, 0);
	T = trans[0][251] = settr(250,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(250,2,248,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(250,2,250,0,0,"IF", 1, 2, 0);
	trans[0][248]	= settr(247,2,256,86,86,"((turnstile[each]==(me+1)))", 1, 2, 0); /* m: 249 -> 256,0 */
	reached0[249] = 1;
	trans[0][249]	= settr(0,0,0,0,0,"turnstile[each] = 0",0,0,0);
	trans[0][252]	= settr(251,2,253,1,0,".(goto)", 1, 2, 0); /* m: 253 -> 0,256 */
	reached0[253] = 1;
	trans[0][250]	= settr(249,2,253,2,0,"else", 1, 2, 0);
	trans[0][253]	= settr(252,2,256,87,87,"each = (each+1)", 1, 2, 0);
	trans[0][254]	= settr(253,2,259,2,0,"else", 1, 2, 0);
	trans[0][255]	= settr(254,2,259,1,0,"goto :b10", 1, 2, 0); /* m: 259 -> 0,18 */
	reached0[259] = 1;
	trans[0][258]	= settr(257,2,259,1,0,"break", 1, 2, 0);
	trans[0][259]	= settr(258,4,18,88,88,"each = 0", 1, 2, 0); /* m: 261 -> 0,18 */
	reached0[261] = 1;
	trans[0][261]	= settr(260,0,18,1,0,"goto idle", 1, 2, 0);
	T = trans[ 0][291] = settr(290,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(290,2,263,0,0,"ATOMIC", 1, 2, 0);
	trans[0][263]	= settr(262,2,289,89,0,"((!(ended[me])&&!((0&&(seen[s]!=fence[s])))))", 1, 2, 0);
	T = trans[0][289] = settr(288,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(288,2,264,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(288,2,286,0,0,"IF", 1, 2, 0);
	trans[0][264]	= settr(263,2,284,90,90,"(((term[s]<fence[s])||doubt[s]))", 1, 2, 0);
	T = trans[ 0][284] = settr(283,0,0,0,0,"sub-sequence", 1, 2, 0);
	T->nxt	= settr(283,0,280,0,0,"sub-sequence", 1, 2, 0);
	trans[0][281]	= settr(280,2,280,1,0,".(goto)", 1, 2, 0);
	T = trans[0][280] = settr(279,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(279,2,265,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(279,2,278,0,0,"DO", 1, 2, 0);
	trans[0][265]	= settr(264,2,270,91,91,"((each<2))", 1, 2, 0); /* m: 266 -> 270,0 */
	reached0[266] = 1;
	trans[0][266]	= settr(0,0,0,0,0,"shared[each] = (shared[each]&~((1<<me)))",0,0,0);
	T = trans[0][270] = settr(269,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(269,2,267,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(269,2,269,0,0,"IF", 1, 2, 0);
	trans[0][267]	= settr(266,2,275,92,92,"((exclusive[each]==(me+1)))", 1, 2, 0); /* m: 268 -> 275,0 */
	reached0[268] = 1;
	trans[0][268]	= settr(0,0,0,0,0,"exclusive[each] = 0",0,0,0);
	trans[0][271]	= settr(270,2,275,1,0,".(goto)", 1, 2, 0);
	trans[0][269]	= settr(268,2,275,2,0,"else", 1, 2, 0);
	T = trans[0][275] = settr(274,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(274,2,272,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(274,2,274,0,0,"IF", 1, 2, 0);
	trans[0][272]	= settr(271,2,280,93,93,"((turnstile[each]==(me+1)))", 1, 2, 0); /* m: 273 -> 280,0 */
	reached0[273] = 1;
	trans[0][273]	= settr(0,0,0,0,0,"turnstile[each] = 0",0,0,0);
	trans[0][276]	= settr(275,2,277,1,0,".(goto)", 1, 2, 0); /* m: 277 -> 0,280 */
	reached0[277] = 1;
	trans[0][274]	= settr(273,2,277,2,0,"else", 1, 2, 0);
	trans[0][277]	= settr(276,2,280,94,94,"each = (each+1)", 1, 2, 0);
	trans[0][278]	= settr(277,2,283,2,0,"else", 1, 2, 0);
	trans[0][279]	= settr(278,2,283,1,0,"goto :b11", 1, 2, 0); /* m: 283 -> 0,18 */
	reached0[283] = 1;
	trans[0][282]	= settr(281,2,283,1,0,"break", 1, 2, 0);
	trans[0][283]	= settr(282,4,18,95,95,"each = 0", 1, 2, 0); /* m: 285 -> 0,18 */
	reached0[285] = 1;
	trans[0][285]	= settr(284,0,18,1,0,"goto idle", 1, 2, 0);
	trans[0][290]	= settr(289,0,385,96,96,".(goto)", 1, 2, 0);
	trans[0][286]	= settr(285,2,287,2,0,"else", 1, 2, 0);
	trans[0][287]	= settr(286,0,385,97,97,"passed = (passed|(1<<s))", 1, 2, 0); /* m: 288 -> 0,385 */
	reached0[288] = 1;
	trans[0][288]	= settr(0,0,0,0,0,"wrote = (wrote|(1<<s))",0,0,0);
	T = trans[ 0][314] = settr(313,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(313,2,296,0,0,"ATOMIC", 1, 2, 0);
	trans[0][296]	= settr(295,2,307,98,98,"((((wrote!=wrote_before)&&(statements<2))&&!(ended[me])))", 1, 2, 0); /* m: 297 -> 307,0 */
	reached0[297] = 1;
	trans[0][297]	= settr(0,0,0,0,0,"i = 0",0,0,0);
	trans[0][308]	= settr(307,2,307,1,0,".(goto)", 1, 2, 0);
	T = trans[0][307] = settr(306,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(306,2,298,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(306,2,305,0,0,"DO", 1, 2, 0);
	trans[0][298]	= settr(297,2,302,99,0,"((i<2))", 1, 2, 0);
	T = trans[0][302] = settr(301,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(301,2,299,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(301,2,301,0,0,"IF", 1, 2, 0);
	trans[0][299]	= settr(298,2,307,100,100,"(((passed&(1<<i))&&!((passed_before&(1<<i)))))", 1, 2, 0); /* m: 300 -> 307,0 */
	reached0[300] = 1;
	trans[0][300]	= settr(0,0,0,0,0,"shared[i] = (shared[i]&~((1<<me)))",0,0,0);
	trans[0][303]	= settr(302,2,304,1,0,".(goto)", 1, 2, 0); /* m: 304 -> 0,307 */
	reached0[304] = 1;
	trans[0][301]	= settr(300,2,304,2,0,"else", 1, 2, 0);
	trans[0][304]	= settr(303,2,307,101,101,"i = (i+1)", 1, 2, 0);
	trans[0][305]	= settr(304,2,310,2,0,"else", 1, 2, 0);
	trans[0][306]	= settr(305,2,310,1,0,"goto :b12", 1, 2, 0); /* m: 310 -> 0,385 */
	reached0[310] = 1;
	trans[0][309]	= settr(308,2,310,1,0,"break", 1, 2, 0);
	trans[0][310]	= settr(309,0,385,102,102,"i = 0", 1, 2, 0); /* m: 311 -> 0,385 */
	reached0[311] = 1;
	trans[0][311]	= settr(0,0,0,0,0,"wrote = wrote_before",0,0,0);
	trans[0][312]	= settr(0,0,0,0,0,"passed = passed_before",0,0,0);
	trans[0][313]	= settr(0,0,0,0,0,"passed_before = passed",0,0,0);
	T = trans[ 0][356] = settr(355,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(355,2,315,0,0,"ATOMIC", 1, 2, 0);
	trans[0][315]	= settr(314,2,331,103,103,"(((wrote!=0)&&!(ended[me])))", 1, 2, 0); /* m: 316 -> 331,0 */
	reached0[316] = 1;
	trans[0][316]	= settr(0,0,0,0,0,"i = 0",0,0,0);
	trans[0][332]	= settr(331,2,331,1,0,".(goto)", 1, 2, 0);
	T = trans[0][331] = settr(330,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(330,2,317,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(330,2,329,0,0,"DO", 1, 2, 0);
	trans[0][317]	= settr(316,2,326,104,0,"((i<2))", 1, 2, 0);
	T = trans[0][326] = settr(325,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(325,2,318,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(325,2,325,0,0,"IF", 1, 2, 0);
	trans[0][318]	= settr(317,2,323,105,105,"((wrote&(1<<i)))", 1, 2, 0); /* m: 319 -> 323,0 */
	reached0[319] = 1;
	trans[0][319]	= settr(0,0,0,0,0,"assert((term[i]>=shut[i]))",0,0,0);
	T = trans[0][323] = settr(322,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(322,2,320,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(322,2,322,0,0,"IF", 1, 2, 0);
	trans[0][320]	= settr(319,2,331,106,106,"((shut[i]<term[i]))", 1, 2, 0); /* m: 321 -> 331,0 */
	reached0[321] = 1;
	trans[0][321]	= settr(0,0,0,0,0,"shut[i] = term[i]",0,0,0);
	trans[0][324]	= settr(323,2,328,1,0,".(goto)", 1, 2, 0); /* m: 328 -> 0,331 */
	reached0[328] = 1;
	trans[0][322]	= settr(321,2,328,2,0,"else", 1, 2, 0);
	trans[0][327]	= settr(326,2,328,1,0,".(goto)", 1, 2, 0); /* m: 328 -> 0,331 */
	reached0[328] = 1;
	trans[0][325]	= settr(324,2,328,2,0,"else", 1, 2, 0);
	trans[0][328]	= settr(327,2,331,107,107,"i = (i+1)", 1, 2, 0);
	trans[0][329]	= settr(328,2,334,2,0,"else", 1, 2, 0);
	trans[0][330]	= settr(329,2,334,1,0,"goto :b13", 1, 2, 0); /* m: 334 -> 0,354 */
	reached0[334] = 1;
	trans[0][333]	= settr(332,2,334,1,0,"break", 1, 2, 0);
	trans[0][334]	= settr(333,2,354,108,108,"i = 0", 1, 2, 0);
	T = trans[ 0][354] = settr(353,0,0,0,0,"sub-sequence", 1, 2, 0);
	T->nxt	= settr(353,0,350,0,0,"sub-sequence", 1, 2, 0);
	trans[0][351]	= settr(350,2,350,1,0,".(goto)", 1, 2, 0);
	T = trans[0][350] = settr(349,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(349,2,335,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(349,2,348,0,0,"DO", 1, 2, 0);
	trans[0][335]	= settr(334,2,340,109,109,"((each<2))", 1, 2, 0); /* m: 336 -> 340,0 */
	reached0[336] = 1;
	trans[0][336]	= settr(0,0,0,0,0,"shared[each] = (shared[each]&~((1<<me)))",0,0,0);
	T = trans[0][340] = settr(339,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(339,2,337,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(339,2,339,0,0,"IF", 1, 2, 0);
	trans[0][337]	= settr(336,2,345,110,110,"((exclusive[each]==(me+1)))", 1, 2, 0); /* m: 338 -> 345,0 */
	reached0[338] = 1;
	trans[0][338]	= settr(0,0,0,0,0,"exclusive[each] = 0",0,0,0);
	trans[0][341]	= settr(340,2,345,1,0,".(goto)", 1, 2, 0);
	trans[0][339]	= settr(338,2,345,2,0,"else", 1, 2, 0);
	T = trans[0][345] = settr(344,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(344,2,342,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(344,2,344,0,0,"IF", 1, 2, 0);
	trans[0][342]	= settr(341,2,350,111,111,"((turnstile[each]==(me+1)))", 1, 2, 0); /* m: 343 -> 350,0 */
	reached0[343] = 1;
	trans[0][343]	= settr(0,0,0,0,0,"turnstile[each] = 0",0,0,0);
	trans[0][346]	= settr(345,2,347,1,0,".(goto)", 1, 2, 0); /* m: 347 -> 0,350 */
	reached0[347] = 1;
	trans[0][344]	= settr(343,2,347,2,0,"else", 1, 2, 0);
	trans[0][347]	= settr(346,2,350,112,112,"each = (each+1)", 1, 2, 0);
	trans[0][348]	= settr(347,2,353,2,0,"else", 1, 2, 0);
	trans[0][349]	= settr(348,2,353,1,0,"goto :b14", 1, 2, 0); /* m: 353 -> 0,18 */
	reached0[353] = 1;
	trans[0][352]	= settr(351,2,353,1,0,"break", 1, 2, 0);
	trans[0][353]	= settr(352,4,18,113,113,"each = 0", 1, 2, 0); /* m: 355 -> 0,18 */
	reached0[355] = 1;
	trans[0][355]	= settr(354,0,18,1,0,"goto idle", 1, 2, 0);
	T = trans[ 0][359] = settr(358,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(358,2,357,0,0,"ATOMIC", 1, 2, 0);
	trans[0][357]	= settr(356,4,18,114,114,"(ended[me])", 1, 2, 0); /* m: 358 -> 18,0 */
	reached0[358] = 1;
	trans[0][358]	= settr(357,0,18,1,0,"goto idle", 1, 2, 0);
	T = trans[ 0][382] = settr(381,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(381,2,360,0,0,"ATOMIC", 1, 2, 0);
	trans[0][360]	= settr(359,2,380,115,0,"(!(ended[me]))", 1, 2, 0);
	T = trans[ 0][380] = settr(379,0,0,0,0,"sub-sequence", 1, 2, 0);
	T->nxt	= settr(379,0,376,0,0,"sub-sequence", 1, 2, 0);
	trans[0][377]	= settr(376,2,376,1,0,".(goto)", 1, 2, 0);
	T = trans[0][376] = settr(375,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(375,2,361,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(375,2,374,0,0,"DO", 1, 2, 0);
	trans[0][361]	= settr(360,2,366,116,116,"((each<2))", 1, 2, 0); /* m: 362 -> 366,0 */
	reached0[362] = 1;
	trans[0][362]	= settr(0,0,0,0,0,"shared[each] = (shared[each]&~((1<<me)))",0,0,0);
	T = trans[0][366] = settr(365,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(365,2,363,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(365,2,365,0,0,"IF", 1, 2, 0);
	trans[0][363]	= settr(362,2,371,117,117,"((exclusive[each]==(me+1)))", 1, 2, 0); /* m: 364 -> 371,0 */
	reached0[364] = 1;
	trans[0][364]	= settr(0,0,0,0,0,"exclusive[each] = 0",0,0,0);
	trans[0][367]	= settr(366,2,371,1,0,".(goto)", 1, 2, 0);
	trans[0][365]	= settr(364,2,371,2,0,"else", 1, 2, 0);
	T = trans[0][371] = settr(370,2,0,0,0,"IF", 1, 2, 0);
	T = T->nxt	= settr(370,2,368,0,0,"IF", 1, 2, 0);
	    T->nxt	= settr(370,2,370,0,0,"IF", 1, 2, 0);
	trans[0][368]	= settr(367,2,376,118,118,"((turnstile[each]==(me+1)))", 1, 2, 0); /* m: 369 -> 376,0 */
	reached0[369] = 1;
	trans[0][369]	= settr(0,0,0,0,0,"turnstile[each] = 0",0,0,0);
	trans[0][372]	= settr(371,2,373,1,0,".(goto)", 1, 2, 0); /* m: 373 -> 0,376 */
	reached0[373] = 1;
	trans[0][370]	= settr(369,2,373,2,0,"else", 1, 2, 0);
	trans[0][373]	= settr(372,2,376,119,119,"each = (each+1)", 1, 2, 0);
	trans[0][374]	= settr(373,2,379,2,0,"else", 1, 2, 0);
	trans[0][375]	= settr(374,2,379,1,0,"goto :b15", 1, 2, 0); /* m: 379 -> 0,18 */
	reached0[379] = 1;
	trans[0][378]	= settr(377,2,379,1,0,"break", 1, 2, 0);
	trans[0][379]	= settr(378,4,18,120,120,"each = 0", 1, 2, 0); /* m: 381 -> 0,18 */
	reached0[381] = 1;
	trans[0][381]	= settr(380,0,18,1,0,"goto idle", 1, 2, 0);
	trans[0][383]	= settr(382,0,407,121,121,"((passed!=0))", 0, 2, 0);
	trans[0][384]	= settr(383,0,407,1,0,"goto frozen", 0, 2, 0);
	trans[0][387]	= settr(386,0,407,1,0,"break", 0, 2, 0);
	T = trans[ 0][407] = settr(406,0,0,0,0,"sub-sequence", 0, 2, 0);
	T->nxt	= settr(406,0,406,0,0,"sub-sequence", 0, 2, 0);
	T = trans[ 0][406] = settr(405,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(405,2,388,0,0,"ATOMIC", 1, 2, 0);
	trans[0][388]	= settr(387,2,402,122,122,"s = 0", 1, 2, 0); /* m: 389 -> 0,402 */
	reached0[389] = 1;
	trans[0][389]	= settr(0,0,0,0,0,"shown = 0",0,0,0);
	trans[0][390]	= settr(0,0,0,0,0,"passed = 0",0,0,0);
	trans[0][391]	= settr(0,0,0,0,0,"wrote = 0",0,0,0);
	trans[0][392]	= settr(0,0,0,0,0,"statements = 0",0,0,0);
	trans[0][393]	= settr(0,0,0,0,0,"passed_before = 0",0,0,0);
	trans[0][394]	= settr(0,0,0,0,0,"wrote_before = 0",0,0,0);
	trans[0][395]	= settr(0,0,0,0,0,"work = 0",0,0,0);
	trans[0][403]	= settr(402,2,402,1,0,".(goto)", 1, 2, 0);
	T = trans[0][402] = settr(401,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(401,2,396,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(401,2,400,0,0,"DO", 1, 2, 0);
	trans[0][396]	= settr(395,2,402,123,123,"((i<2))", 1, 2, 0); /* m: 397 -> 402,0 */
	reached0[397] = 1;
	trans[0][397]	= settr(0,0,0,0,0,"seen[i] = 0",0,0,0);
	trans[0][398]	= settr(0,0,0,0,0,"term[i] = 0",0,0,0);
	trans[0][399]	= settr(0,0,0,0,0,"i = (i+1)",0,0,0);
	trans[0][400]	= settr(399,2,404,2,0,"else", 1, 2, 0);
	trans[0][401]	= settr(400,2,404,1,0,"goto :b16", 1, 2, 0);
	trans[0][404]	= settr(403,2,405,1,0,"break", 1, 2, 0);
	trans[0][405]	= settr(404,0,408,124,124,"i = 0", 1, 2, 0);
	trans[0][408]	= settr(407,0,428,125,0,"(0)", 0, 2, 0);
	T = trans[ 0][428] = settr(427,0,0,0,0,"sub-sequence", 0, 2, 0);
	T->nxt	= settr(427,0,427,0,0,"sub-sequence", 0, 2, 0);
	T = trans[ 0][427] = settr(426,2,0,0,0,"ATOMIC", 1, 2, 0);
	T->nxt	= settr(426,2,409,0,0,"ATOMIC", 1, 2, 0);
	trans[0][409]	= settr(408,2,423,126,126,"s = 0", 1, 2, 0); /* m: 410 -> 0,423 */
	reached0[410] = 1;
	trans[0][410]	= settr(0,0,0,0,0,"shown = 0",0,0,0);
	trans[0][411]	= settr(0,0,0,0,0,"passed = 0",0,0,0);
	trans[0][412]	= settr(0,0,0,0,0,"wrote = 0",0,0,0);
	trans[0][413]	= settr(0,0,0,0,0,"statements = 0",0,0,0);
	trans[0][414]	= settr(0,0,0,0,0,"passed_before = 0",0,0,0);
	trans[0][415]	= settr(0,0,0,0,0,"wrote_before = 0",0,0,0);
	trans[0][416]	= settr(0,0,0,0,0,"work = 0",0,0,0);
	trans[0][424]	= settr(423,2,423,1,0,".(goto)", 1, 2, 0);
	T = trans[0][423] = settr(422,2,0,0,0,"DO", 1, 2, 0);
	T = T->nxt	= settr(422,2,417,0,0,"DO", 1, 2, 0);
	    T->nxt	= settr(422,2,421,0,0,"DO", 1, 2, 0);
	trans[0][417]	= settr(416,2,423,127,127,"((i<2))", 1, 2, 0); /* m: 418 -> 423,0 */
	reached0[418] = 1;
	trans[0][418]	= settr(0,0,0,0,0,"seen[i] = 0",0,0,0);
	trans[0][419]	= settr(0,0,0,0,0,"term[i] = 0",0,0,0);
	trans[0][420]	= settr(0,0,0,0,0,"i = (i+1)",0,0,0);
	trans[0][421]	= settr(420,2,425,2,0,"else", 1, 2, 0);
	trans[0][422]	= settr(421,2,425,1,0,"goto :b17", 1, 2, 0);
	trans[0][425]	= settr(424,2,426,1,0,"break", 1, 2, 0);
	trans[0][426]	= settr(425,0,429,128,128,"i = 0", 1, 2, 0);
	trans[0][429]	= settr(428,0,0,129,129,"-end-", 0, 3500, 0);
	/* np_ demon: */
	trans[_NP_] = (Trans **) emalloc(3*sizeof(Trans *));
	T = trans[_NP_][0] = settr(9997,0,1,_T5,0,"(np_)", 1,2,0);
	    T->nxt	  = settr(9998,0,0,_T2,0,"(1)",   0,2,0);
	T = trans[_NP_][1] = settr(9999,0,1,_T5,0,"(np_)", 1,2,0);
}

Trans *
settr(	int t_id, int a, int b, int c, int d,
	char *t, int g, int tpe0, int tpe1)
{	Trans *tmp = (Trans *) emalloc(sizeof(Trans));

	tmp->atom  = a&(6|32);	/* only (2|8|32) have meaning */
	if (!g) tmp->atom |= 8;	/* no global references */
	tmp->st    = b;
	tmp->tpe[0] = tpe0;
	tmp->tpe[1] = tpe1;
	tmp->tp    = t;
	tmp->t_id  = t_id;
	tmp->forw  = c;
	tmp->back  = d;
	return tmp;
}

Trans *
cpytr(Trans *a)
{	Trans *tmp = (Trans *) emalloc(sizeof(Trans));

	int i;
	tmp->atom  = a->atom;
	tmp->st    = a->st;
#ifdef HAS_UNLESS
	tmp->e_trans = a->e_trans;
	for (i = 0; i < HAS_UNLESS; i++)
		tmp->escp[i] = a->escp[i];
#endif
	tmp->tpe[0] = a->tpe[0];
	tmp->tpe[1] = a->tpe[1];
	for (i = 0; i < 6; i++)
	{	tmp->qu[i] = a->qu[i];
		tmp->ty[i] = a->ty[i];
	}
	tmp->tp    = (char *) emalloc(strlen(a->tp)+1);
	strcpy(tmp->tp, a->tp);
	tmp->t_id  = a->t_id;
	tmp->forw  = a->forw;
	tmp->back  = a->back;
	return tmp;
}

#ifndef NOREDUCE
int
srinc_set(int n)
{	if (n <= 2) return LOCAL;
	if (n <= 2+  DELTA) return Q_FULL_F; /* 's' or nfull  */
	if (n <= 2+2*DELTA) return Q_EMPT_F; /* 'r' or nempty */
	if (n <= 2+3*DELTA) return Q_EMPT_T; /* empty */
	if (n <= 2+4*DELTA) return Q_FULL_T; /* full  */
	if (n ==   5*DELTA) return GLOBAL;
	if (n ==   6*DELTA) return TIMEOUT_F;
	if (n ==   7*DELTA) return ALPHA_F;
	Uerror("cannot happen srinc_class");
	return BAD;
}
int
srunc(int n, int m)
{	switch(m) {
	case Q_FULL_F: return n-2;
	case Q_EMPT_F: return n-2-DELTA;
	case Q_EMPT_T: return n-2-2*DELTA;
	case Q_FULL_T: return n-2-3*DELTA;
	case ALPHA_F:
	case TIMEOUT_F: return 257; /* non-zero, and > MAXQ */
	}
	Uerror("cannot happen srunc");
	return 0;
}
#endif
int cnt;
#ifdef HAS_UNLESS
int
isthere(Trans *a, int b)
{	Trans *t;
	for (t = a; t; t = t->nxt)
		if (t->t_id == b)
			return 1;
	return 0;
}
#endif
#ifndef NOREDUCE
int
mark_safety(Trans *t) /* for conditional safety */
{	int g = 0, i, j, k;

	if (!t) return 0;
	if (t->qu[0])
		return (t->qu[1])?2:1;	/* marked */

	for (i = 0; i < 2; i++)
	{	j = srinc_set(t->tpe[i]);
		if (j >= GLOBAL && j != ALPHA_F)
			return -1;
		if (j != LOCAL)
		{	k = srunc(t->tpe[i], j);
			if (g == 0
			||  t->qu[0] != k
			||  t->ty[0] != j)
			{	t->qu[g] = k;
				t->ty[g] = j;
				g++;
	}	}	}
	return g;
}
#endif
void
retrans(int n, int m, int is, short srcln[], uchar reach[], uchar lpstate[])
	/* process n, with m states, is=initial state */
{	Trans *T0, *T1, *T2, *T3;
	Trans *T4, *T5; /* t_reverse or has_unless */
	int i;
#if defined(HAS_UNLESS) || !defined(NOREDUCE)
	int k;
#endif
#ifndef NOREDUCE
	int g, h, j, aa;
#endif
#ifdef HAS_UNLESS
	int p;
#endif
	if (state_tables >= 4)
	{	printf("STEP 1 %s\n", 
			procname[n]);
		for (i = 1; i < m; i++)
		for (T0 = trans[n][i]; T0; T0 = T0->nxt)
			crack(n, i, T0, srcln);
		return;
	}
	do {
		for (i = 1, cnt = 0; i < m; i++)
		{	T2 = trans[n][i];
			T1 = T2?T2->nxt:(Trans *)0;
/* prescan: */		for (T0 = T1; T0; T0 = T0->nxt)
/* choice in choice */	{	if (T0->st && trans[n][T0->st]
				&&  trans[n][T0->st]->nxt)
					break;
			}
#if 0
		if (T0)
		printf("\tstate %d / %d: choice in choice\n",
		i, T0->st);
#endif
			if (T0)
			for (T0 = T1; T0; T0 = T0->nxt)
			{	T3 = trans[n][T0->st];
				if (!T3->nxt)
				{	T2->nxt = cpytr(T0);
					T2 = T2->nxt;
					imed(T2, T0->st, n, i);
					continue;
				}
				do {	T3 = T3->nxt;
					T2->nxt = cpytr(T3);
					T2 = T2->nxt;
					imed(T2, T0->st, n, i);
				} while (T3->nxt);
				cnt++;
			}
		}
	} while (cnt);
	if (state_tables >= 3)
	{	printf("STEP 2 %s\n", 
			procname[n]);
		for (i = 1; i < m; i++)
		for (T0 = trans[n][i]; T0; T0 = T0->nxt)
			crack(n, i, T0, srcln);
		return;
	}
	for (i = 1; i < m; i++)
	{	if (trans[n][i] && trans[n][i]->nxt) /* optimize */
		{	T1 = trans[n][i]->nxt;
#if 0
			printf("\t\tpull %d (%d) to %d\n",
			T1->st, T1->forw, i);
#endif
			srcln[i] = srcln[T1->st];	/* Oyvind Teig, 5.2.0 */

			if (!trans[n][T1->st]) continue;
			T0 = cpytr(trans[n][T1->st]);
			trans[n][i] = T0;
			reach[T1->st] = 1;
			imed(T0, T1->st, n, i);
			for (T1 = T1->nxt; T1; T1 = T1->nxt)
			{
#if 0
			printf("\t\tpull %d (%d) to %d\n",
				T1->st, T1->forw, i);
#endif
		/*		srcln[i] = srcln[T1->st];  gh: not useful */
				if (!trans[n][T1->st]) continue;
				T0->nxt = cpytr(trans[n][T1->st]);
				T0 = T0->nxt;
				reach[T1->st] = 1;
				imed(T0, T1->st, n, i);
	}	}	}
	if (state_tables >= 2)
	{	printf("STEP 3 %s\n", 
			procname[n]);
		for (i = 1; i < m; i++)
		for (T0 = trans[n][i]; T0; T0 = T0->nxt)
			crack(n, i, T0, srcln);
		return;
	}
#ifdef HAS_UNLESS
	for (i = 1; i < m; i++)
	{	if (!trans[n][i]) continue;
		/* check for each state i if an
		 * escape to some state p is defined
		 * if so, copy and mark p's transitions
		 * and prepend them to the transition-
		 * list of state i
		 */
	 if (!like_java) /* the default */
	 {	for (T0 = trans[n][i]; T0; T0 = T0->nxt)
		for (k = HAS_UNLESS-1; k >= 0; k--)
		{	if (p = T0->escp[k])
			for (T1 = trans[n][p]; T1; T1 = T1->nxt)
			{	if (isthere(trans[n][i], T1->t_id))
					continue;
				T2 = cpytr(T1);
				T2->e_trans = p;
				T2->nxt = trans[n][i];
				trans[n][i] = T2;
		}	}
	 } else /* outermost unless checked first */
	 {	T4 = T3 = (Trans *) 0;
		for (T0 = trans[n][i]; T0; T0 = T0->nxt)
		for (k = HAS_UNLESS-1; k >= 0; k--)
		{	if (p = T0->escp[k])
			for (T1 = trans[n][p]; T1; T1 = T1->nxt)
			{	if (isthere(trans[n][i], T1->t_id))
					continue;
				T2 = cpytr(T1);
				T2->nxt = (Trans *) 0;
				T2->e_trans = p;
				if (T3)	T3->nxt = T2;
				else	T4 = T2;
				T3 = T2;
		}	}
		if (T4)
		{	T3->nxt = trans[n][i];
			trans[n][i] = T4;
		}
	 }
	}
#endif
#ifndef NOREDUCE
	for (i = 1; i < m; i++)
	{	if (a_cycles)
		{ /* moves through these states are visible */
	#if PROG_LAB>0 && defined(HAS_NP)
			if (progstate[n][i])
				goto degrade;
			for (T1 = trans[n][i]; T1; T1 = T1->nxt)
				if (progstate[n][T1->st])
					goto degrade;
	#endif
			if (accpstate[n][i] || visstate[n][i])
				goto degrade;
			for (T1 = trans[n][i]; T1; T1 = T1->nxt)
				if (accpstate[n][T1->st])
					goto degrade;
		}
		T1 = trans[n][i];
		if (!T1) continue;
		g = mark_safety(T1);	/* V3.3.1 */
		if (g < 0) goto degrade; /* global */
		/* check if mixing of guards preserves reduction */
		if (T1->nxt)
		{	k = 0;
			for (T0 = T1; T0; T0 = T0->nxt)
			{	if (!(T0->atom&8))
					goto degrade;
				for (aa = 0; aa < 2; aa++)
				{	j = srinc_set(T0->tpe[aa]);
					if (j >= GLOBAL && j != ALPHA_F)
						goto degrade;
					if (T0->tpe[aa]
					&&  T0->tpe[aa]
					!=  T1->tpe[0])
						k = 1;
			}	}
			/* g = 0;	V3.3.1 */
			if (k)	/* non-uniform selection */
			for (T0 = T1; T0; T0 = T0->nxt)
			for (aa = 0; aa < 2; aa++)
			{	j = srinc_set(T0->tpe[aa]);
				if (j != LOCAL)
				{	k = srunc(T0->tpe[aa], j);
					for (h = 0; h < 6; h++)
						if (T1->qu[h] == k
						&&  T1->ty[h] == j)
							break;
					if (h >= 6)
					{	T1->qu[g%6] = k;
						T1->ty[g%6] = j;
						g++;
			}	}	}
			if (g > 6)
			{	T1->qu[0] = 0;	/* turn it off */
				printf("pan: warning, line %d, ",
					srcln[i]);
			 	printf("too many stmnt types (%d)",
					g);
			  	printf(" in selection\n");
			  goto degrade;
			}
		}
		/* mark all options global if >=1 is global */
		for (T1 = trans[n][i]; T1; T1 = T1->nxt)
			if (!(T1->atom&8)) break;
		if (T1)
degrade:	for (T1 = trans[n][i]; T1; T1 = T1->nxt)
			T1->atom &= ~8;	/* mark as unsafe */
		/* can only mix 'r's or 's's if on same chan */
		/* and not mixed with other local operations */
		T1 = trans[n][i];
		if (!T1 || T1->qu[0]) continue;
		j = T1->tpe[0];
		if (T1->nxt && T1->atom&8)
		{ if (j == 5*DELTA)
		  {	printf("warning: line %d ", srcln[i]);
			printf("mixed condition ");
			printf("(defeats reduction)\n");
			goto degrade;
		  }
		  for (T0 = T1; T0; T0 = T0->nxt)
		  for (aa = 0; aa < 2; aa++)
		  if  (T0->tpe[aa] && T0->tpe[aa] != j)
		  {	printf("warning: line %d ", srcln[i]);
			printf("[%d-%d] mixed %stion ",
				T0->tpe[aa], j, 
				(j==5*DELTA)?"condi":"selec");
			printf("(defeats reduction)\n");
			printf("	'%s' <-> '%s'\n",
				T1->tp, T0->tp);
			goto degrade;
		} }
	}
#endif
	for (i = 1; i < m; i++)
	{	T2 = trans[n][i];
		if (!T2
		||  T2->nxt
		||  strncmp(T2->tp, ".(goto)", 7)
		||  !stopstate[n][i])
			continue;
		stopstate[n][T2->st] = 1;
	}
	if (state_tables && !verbose)
	{	if (dodot)
		{	char buf[256], *q = buf, *p = procname[n];
			while (*p != '\0')
			{	if (*p != ':')
				{	*q++ = *p;
				}
				p++;
			}
			*q = '\0';
			printf("digraph ");
			switch (Btypes[n]) {
			case I_PROC:  printf("init {\n"); break;
			case N_CLAIM: printf("claim_%s {\n", buf); break;
			case E_TRACE: printf("notrace {\n"); break;
			case N_TRACE: printf("trace {\n"); break;
			default:      printf("p_%s {\n", buf); break;
			}
			printf("size=\"8,10\";\n");
			printf("  GT [shape=box,style=dotted,label=\"%s\"];\n", buf);
			printf("  GT -> S%d;\n", is);
		} else
		{	switch (Btypes[n]) {
			case I_PROC:  printf("init\n"); break;
			case N_CLAIM: printf("claim %s\n", procname[n]); break;
			case E_TRACE: printf("notrace assertion\n"); break;
			case N_TRACE: printf("trace assertion\n"); break;
			default:      printf("proctype %s\n", procname[n]); break;
		}	}
		for (i = 1; i < m; i++)
		{	reach[i] = 1;
		}
		tagtable(n, m, is, srcln, reach);
		if (dodot) printf("}\n");
	} else
	for (i = 1; i < m; i++)
	{	int nrelse;
		if (Btypes[n] != N_CLAIM)
		{	for (T0 = trans[n][i]; T0; T0 = T0->nxt)
			{	if (T0->st == i
				&& strcmp(T0->tp, "(1)") == 0)
				{	printf("error: proctype '%s' ",
						procname[n]);
		  			printf("line %d, state %d: has un",
						srcln[i], i);
					printf("conditional self-loop\n");
					pan_exit(1);
		}	}	}
		nrelse = 0;
		for (T0 = trans[n][i]; T0; T0 = T0->nxt)
		{	if (strcmp(T0->tp, "else") == 0)
				nrelse++;
		}
		if (nrelse > 1)
		{	printf("error: proctype '%s' state",
				procname[n]);
		  	printf(" %d, inherits %d", i, nrelse);
		  	printf(" 'else' stmnts\n");
			pan_exit(1);
	}	}
#if !defined(LOOPSTATE) && !defined(BFS_PAR)
	if (state_tables)
#endif
	do_dfs(n, m, is, srcln, reach, lpstate);

	if (!t_reverse)
	{	return;
	}
	/* process n, with m states, is=initial state -- reverse list */
	if (!state_tables && Btypes[n] != N_CLAIM)
	{	for (i = 1; i < m; i++)
		{	Trans *Tx = (Trans *) 0; /* list of escapes */
			Trans *Ty = (Trans *) 0; /* its tail element */
			T1 = (Trans *) 0; /* reversed list */
			T2 = (Trans *) 0; /* its tail */
			T3 = (Trans *) 0; /* remembers possible 'else' */

			/* find unless-escapes, they should go first */
			T4 = T5 = T0 = trans[n][i];
	#ifdef HAS_UNLESS
			while (T4 && T4->e_trans) /* escapes are first in orig list */
			{	T5 = T4;	  /* remember predecessor */
				T4 = T4->nxt;
			}
	#endif
			/* T4 points to first non-escape, T5 to its parent, T0 to original list */
			if (T4 != T0)		 /* there was at least one escape */
			{	T3 = T5->nxt;		 /* start of non-escapes */
				T5->nxt = (Trans *) 0;	 /* separate */
				Tx = T0;		 /* start of the escapes */
				Ty = T5;		 /* its tail */
				T0 = T3;		 /* the rest, to be reversed */
			}
			/* T0 points to first non-escape, Tx to the list of escapes, Ty to its tail */

			/* first tail-add non-escape transitions, reversed */
			T3 = (Trans *) 0;
			for (T5 = T0; T5; T5 = T4)
			{	T4 = T5->nxt;
	#ifdef HAS_UNLESS
				if (T5->e_trans)
				{	printf("error: cannot happen!\n");
					continue;
				}
	#endif
				if (strcmp(T5->tp, "else") == 0)
				{	T3 = T5;
					T5->nxt = (Trans *) 0;
				} else
				{	T5->nxt = T1;
					if (!T1) { T2 = T5; }
					T1 = T5;
			}	}
			/* T3 points to a possible else, which is removed from the list */
			/* T1 points to the reversed list so far (without escapes) */
			/* T2 points to the tail element -- where the else should go */
			if (T2 && T3)
			{	T2->nxt = T3;	/* add else */
			} else
			{	if (T3) /* there was an else, but there's no tail */
				{	if (!T1)	/* and no reversed list */
					{	T1 = T3; /* odd, but possible */
					} else		/* even stranger */
					{	T1->nxt = T3;
			}	}	}

			/* add in the escapes, to that they appear at the front */
			if (Tx && Ty) { Ty->nxt = T1; T1 = Tx; }

			trans[n][i] = T1;
			/* reversed, with escapes first and else last */
	}	}
	if (state_tables && verbose)
	{	printf("FINAL proctype %s\n", 
			procname[n]);
		for (i = 1; i < m; i++)
		for (T0 = trans[n][i]; T0; T0 = T0->nxt)
			crack(n, i, T0, srcln);
	}
}
void
imed(Trans *T, int v, int n, int j)	/* set intermediate state */
{	progstate[n][T->st] |= progstate[n][v];
	accpstate[n][T->st] |= accpstate[n][v];
	stopstate[n][T->st] |= stopstate[n][v];
	mapstate[n][j] = T->st;
}
void
tagtable(int n, int m, int is, short srcln[], uchar reach[])
{	Trans *z;

	if (is >= m || !trans[n][is]
	||  is <= 0 || reach[is] == 0)
		return;
	reach[is] = 0;
	if (state_tables)
	for (z = trans[n][is]; z; z = z->nxt)
	{	if (dodot)
			dot_crack(n, is, z);
		else
			crack(n, is, z, srcln);
	}

	for (z = trans[n][is]; z; z = z->nxt)
	{
#ifdef HAS_UNLESS
		int i, j;
#endif
		tagtable(n, m, z->st, srcln, reach);
#ifdef HAS_UNLESS
		for (i = 0; i < HAS_UNLESS; i++)
		{	j = trans[n][is]->escp[i];
			if (!j) break;
			tagtable(n, m, j, srcln, reach);
		}
#endif
	}
}

extern Trans *t_id_lkup[];

void
dfs_table(int n, int m, int is, short srcln[], uchar reach[], uchar lpstate[])
{	Trans *z;

	if (is >= m || is <= 0 || !trans[n][is])
		return;
	if ((reach[is] & (4|8|16)) != 0)
	{	if ((reach[is] & (8|16)) == 16)	/* on stack, not yet recorded */
		{	lpstate[is] = 1;
			reach[is] |= 8; /* recorded */
			if (state_tables && verbose)
			{	printf("state %d line %d is a loopstate\n", is, srcln[is]);
		}	}
		return;
	}
	reach[is] |= (4|16);	/* visited | onstack */
	for (z = trans[n][is]; z; z = z->nxt)
	{	t_id_lkup[z->t_id] = z;
#ifdef HAS_UNLESS
		int i, j;
#endif
		dfs_table(n, m, z->st, srcln, reach, lpstate);
#ifdef HAS_UNLESS
		for (i = 0; i < HAS_UNLESS; i++)
		{	j = trans[n][is]->escp[i];
			if (!j) break;
			dfs_table(n, m, j, srcln, reach, lpstate);
		}
#endif
	}
	reach[is] &= ~16; /* no longer on stack */
}
void
do_dfs(int n, int m, int is, short srcln[], uchar reach[], uchar lpstate[])
{	int i;
	dfs_table(n, m, is, srcln, reach, lpstate);
	for (i = 0; i < m; i++)
		reach[i] &= ~(4|8|16);
}
void
crack(int n, int j, Trans *z, short srcln[])
{	int i;

	if (!z) return;
	printf("	state %3d -(tr %3d)-> state %3d  ",
		j, z->forw, z->st);
	printf("[id %3d tp %3d", z->t_id, z->tpe[0]);
	if (z->tpe[1]) printf(",%d", z->tpe[1]);
#ifdef HAS_UNLESS
	if (z->e_trans)
		printf(" org %3d", z->e_trans);
	else if (state_tables >= 2)
	for (i = 0; i < HAS_UNLESS; i++)
	{	if (!z->escp[i]) break;
		printf(" esc %d", z->escp[i]);
	}
#endif
	printf("]");
	printf(" [%s%s%s%s%s] %s:%d => ",
		z->atom&6?"A":z->atom&32?"D":"-",
		accpstate[n][j]?"a" :"-",
		stopstate[n][j]?"e" : "-",
		progstate[n][j]?"p" : "-",
		z->atom & 8 ?"L":"G",
		PanSource, srcln[j]);
	for (i = 0; z->tp[i]; i++)
		if (z->tp[i] == '\n')
			printf("\\n");
		else
			putchar(z->tp[i]);
	if (verbose && z->qu[0])
	{	printf("\t[");
		for (i = 0; i < 6; i++)
			if (z->qu[i])
				printf("(%d,%d)",
				z->qu[i], z->ty[i]);
		printf("]");
	}
	printf("\n");
	fflush(stdout);
}
/* spin -a m.pml; cc -o pan pan.c; ./pan -D | dot -Tps > foo.ps; ps2pdf foo.ps */
void
dot_crack(int n, int j, Trans *z)
{	int i;

	if (!z) return;
	printf("	S%d -> S%d  [color=black", j, z->st);

	if (z->atom&6) printf(",style=dashed");
	else if (z->atom&32) printf(",style=dotted");
	else if (z->atom&8) printf(",style=solid");
	else printf(",style=bold");

	printf(",label=\"");
	for (i = 0; z->tp[i]; i++)
	{	if (z->tp[i] == '\\'
		&&  z->tp[i+1] == 'n')
		{	i++; printf(" ");
		} else
		{	putchar(z->tp[i]);
	}	}
	printf("\"];\n");
	if (accpstate[n][j]) printf("  S%d [color=red,style=bold];\n", j);
	else if (progstate[n][j]) printf("  S%d [color=green,style=bold];\n", j);
	if (stopstate[n][j]) printf("  S%d [color=blue,style=bold,shape=box];\n", j);
}

#ifdef VAR_RANGES
#define BYTESIZE	32	/* 2^8 : 2^3 = 256:8 = 32 */

typedef struct Vr_Ptr {
	char	*nm;
	uchar	vals[BYTESIZE];
	struct Vr_Ptr *nxt;
} Vr_Ptr;
Vr_Ptr *ranges = (Vr_Ptr *) 0;

void
logval(char *s, int v)
{	Vr_Ptr *tmp;

	if (v<0 || v > 255) return;
	for (tmp = ranges; tmp; tmp = tmp->nxt)
		if (!strcmp(tmp->nm, s))
			goto found;
	tmp = (Vr_Ptr *) emalloc(sizeof(Vr_Ptr));
	tmp->nxt = ranges;
	ranges = tmp;
	tmp->nm = s;
found:
	tmp->vals[(v)/8] |= 1<<((v)%8);
}

void
dumpval(uchar X[], int range)
{	int w, x, i, j = -1;

	for (w = i = 0; w < range; w++)
	for (x = 0; x < 8; x++, i++)
	{
from:		if ((X[w] & (1<<x)))
		{	printf("%d", i);
			j = i;
			goto upto;
	}	}
	return;
	for (w = 0; w < range; w++)
	for (x = 0; x < 8; x++, i++)
	{
upto:		if (!(X[w] & (1<<x)))
		{	if (i-1 == j)
				printf(", ");
			else
				printf("-%d, ", i-1);
			goto from;
	}	}
	if (j >= 0 && j != 255)
		printf("-255");
}

void
dumpranges(void)
{	Vr_Ptr *tmp;
	printf("\nValues assigned within ");
	printf("interval [0..255]:\n");
	for (tmp = ranges; tmp; tmp = tmp->nxt)
	{	printf("\t%s\t: ", tmp->nm);
		dumpval(tmp->vals, BYTESIZE);
		printf("\n");
	}
}
#endif
