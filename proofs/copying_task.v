(* Page 15, "A copying task and its reach bound" (notebooks/sparse_universality/copying_task.ipynb).
   Lemma 15.2, Theorem 15.3, Propositions 15.6, 15.7, 15.8. *)
From Coq Require Import ZArith ZifyClasses ZifyInst ZifyBool Lia.
From mathcomp Require Import all_ssreflect.
Require Import definitions patterns_and_conditions.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.

(* Definition 15.1, (15.2): in layer l + 1 token k reads A l k, l = 0, 1, ...; its field after L layers
   is whom it has heard of. *)
Local Notation field A := (heard_of (with_self A)).
Section Fields.
Variables (T : finType) (A : nat -> T -> {set T}).
Variables (St In : Type) (embed : T -> In -> St) (F : nat -> T -> (T -> St) -> St).

(* Lemma 15.2 (Fields). *)
Theorem fields : local (with_self A) F ->
  forall L x x' k, {in field A L k, x =1 x'} -> state embed F L x k = state embed F L x' k.
Proof. exact: heard_of_state. Qed.
End Fields.
(* layers that add up what is read are local in this sense *)
Example local_sums (T : finType) (A : nat -> T -> {set T}) :
  local (with_self A) (fun l k (s : T -> nat) => s k + \sum_(j in A l k) s j).
Proof.
move=> l k s s' e; congr (_ + _); first by apply: e; rewrite setU11.
by apply: eq_bigr => j jA; apply: e; rewrite setU1r.
Qed.

(* Proposition 15.6 (Three schemes). Head h of H reads B h; p steps S q. *)
Section Schemes.
Variables (T : finType) (p H : nat) (S : 'I_p -> T -> {set T}).
Hypothesis p0 : 0 < p.
Definition step (q : nat) : 'I_p := Ordinal (ltn_pmod q p0).
(* what some head of the layer lets token k read *)
Definition merged (B : 'I_H -> T -> {set T}) k := \bigcup_h B h k.
Definition UNION (l : nat) := merged (fun _ k => \bigcup_q S q k).
Definition MULTIHEAD (l : nat) := merged (fun h k => S (step h) k).
Definition SEQUENTIAL (l : nat) := merged (fun _ k => S (step l) k).

Lemma field_sub (A B : nat -> T -> {set T}) :
  (forall l k, A l k \subset B l k) -> forall L k, field A L k \subset field B L k.
Proof.
move=> AB; elim=> [|t IH] k; rewrite ?heard_self //; apply: setUSS; first exact: IH.
apply/bigcupsP => j jA; apply: subset_trans (IH j) _.
by apply: (bigcup_sup j); rewrite // (subsetP (AB t k)).
Qed.
Theorem schemes : p <= H -> forall L k, field UNION L k = field MULTIHEAD L k /\
  field SEQUENTIAL L k \subset field UNION L k.
Proof.
move=> pH; have H0 : 0 < H by apply: leq_trans pH.
have all l k : UNION l k = \bigcup_q S q k.
  apply/eqP; rewrite eqEsubset; apply/andP; split; first by apply/bigcupsP.
  by apply: (bigcup_sup (Ordinal H0)).
have heads l k : MULTIHEAD l k = \bigcup_q S q k.
  apply/eqP; rewrite eqEsubset; apply/andP; split; apply/bigcupsP => h _.
    by apply: (bigcup_sup (step h)).
  have -> : h = step (widen_ord pH h) by apply: val_inj; rewrite /= modn_small.
  exact: (bigcup_sup (widen_ord pH h)).
move=> L k; split.
  by apply/eqP; rewrite eqEsubset !field_sub // => l i; rewrite all heads.
apply: field_sub => l i; rewrite all; apply/bigcupsP => h _; exact: (bigcup_sup (step l)).
Qed.
End Schemes.
Example schemes_2 (S : 'I_2 -> 'I_3 -> {set 'I_3}) L k :
  field (UNION 2 S) L k = field (MULTIHEAD 2 S (isT : 0 < 2)) L k.
Proof. by case: (@schemes _ 2 2 S isT isT L k). Qed.

(* Proposition 15.7 (All or nothing). n = 2 (m + 1) tokens; query m + i, source i, 1 <= i <= m;
   the second copy of the symbol stands at m + 1 + i. *)
Definition reads_at n (D : pred nat) (l : nat) (k : 'I_n) := [set j : 'I_n | (j <= k) && D (k - j)].
Definition tok m (k : nat) : 'I_(2 * m).+2 := inord k.
(* R_L m, the number of the symbols that are reached *)
Definition reached m (A : nat -> 'I_(2 * m).+2 -> {set 'I_(2 * m).+2}) L :=
  \sum_(i < m) ((tok m i.+1 \in field A L (tok m (m + i.+1)))
             || (tok m (m + i.+2) \in field A L (tok m (m + i.+1)))).
(* m is a sum of L distances *)
Fixpoint sums (D : pred nat) L m :=
  if L is l.+1 then [exists d : 'I_m.+1, D d && sums D l (m - d)] else m == 0.
Lemma sumsP (D : pred nat) L m :
  reflect (exists2 d : seq nat, (size d = L) /\ all D d & sumn d = m) (sums D L m).
Proof.
apply: (iffP idP); elim: L m => [|L IH] m /=.
- by move/eqP ->; exists [::].
- by case/existsP=> d /andP[Dd /IH[s [sz Ds] sm]]; exists (val d :: s);
    rewrite /= ?sz ?Dd // sm subnKC // -ltnS.
- by case=> -[|d s] [] //= _ _ <-.
case=> -[|d s] [] //= [sz] /andP[Dd Ds] <-.
have lt : d < (d + sumn s).+1 by rewrite ltnS leq_addr.
by apply/existsP; exists (Ordinal lt); rewrite /= Dd addKn; apply: IH; exists s.
Qed.
Lemma distance_field n (D : pred nat) L (k j : 'I_n) : D 0 ->
  (j \in field (@reads_at n D) L k) = (j <= k) && sums D L (k - j).
Proof.
move=> D0; elim: L k => [|L IH] k; first by rewrite /= inE -val_eqE /=; arith.
have skip i : sums D L i -> sums D L.+1 i.
  by move=> s /=; apply/existsP; exists ord0; rewrite D0 subn0.
rewrite heard_self /= inE IH; apply/orP/andP => [[/andP[jk s]|/bigcupP[i]]|[jk /existsP[d /andP[Dd s]]]].
- by split; last exact: skip.
- rewrite inE IH => /andP[ik Di] /andP[ji s]; split; first exact: leq_trans ji ik.
  have lt : k - i < (k - j).+1 by move: ji ik; arith.
  apply/existsP; exists (Ordinal lt); rewrite /= Di (_ : k - j - (k - i) = i - j) //.
  by move: ji ik; arith.
have dn : k - d < n by move: (ltn_ord k); arith.
have dk : d <= k - j by rewrite -ltnS ltn_ord.
right; apply/bigcupP; exists (Ordinal dn); rewrite ?inE ?IH /=.
  by rewrite subKn ?leq_subr //; move: jk dk; arith.
by rewrite (_ : k - d - j = k - j - d) ?s ?andbT; move: jk dk; arith.
Qed.
Theorem all_or_nothing (m : nat) (D : pred nat) L : D 0 ->
  @reached m (@reads_at (2 * m).+2 D) L = if sums D L m then m else 0.
Proof.
move=> D0; rewrite /reached (eq_bigr (fun _ => nat_of_bool (sums D L m))) => [|i _].
  by rewrite sum_nat_const card_ord; case: (sums D L m); rewrite ?muln1 ?muln0.
rewrite !distance_field // !inordK; try by move: (ltn_ord i); arith.
by rewrite (_ : m + i.+2 <= m + i.+1 = false) ?orbF ?leq_addl ?addnK //; arith.
Qed.
Theorem window_sums w L m : 0 < w -> sums (fun d => d < w) L m = (m <= L * (w - 1)).
Proof.
move=> w0; elim: L m => [|L IH] m /=; first by arith.
rewrite mulSn; apply/existsP/idP => [[d /andP[dw]]|le]; first by rewrite IH; move: dw (ltn_ord d);
  arith.
have lt : minn m (w - 1) < m.+1 by rewrite ltnS geq_minl.
exists (Ordinal lt); rewrite /= IH /minn; case: ifP => c; move: w0 le c; move: (L * (w - 1)) => q;
  arith.
Qed.
Example all_or_nothing_3 : @reached 3 (@reads_at 8 (fun d => d < 2)) 3 = 3 /\
  @reached 3 (@reads_at 8 (fun d => d < 2)) 2 = 0.
Proof. by rewrite !all_or_nothing // !window_sums. Qed.
(* strided as UNION: a window that reaches c < w back, and every w-th token *)
Theorem strided_sums w c m : c < w ->
  sums (fun d => (d <= c) || (w %| d)) 2 m = (m <= 2 * c) || (m %% w <= c).
Proof.
move=> cw; have w0 : 0 < w by arith.
apply/sumsP/idP => [[s [sz Ds]]|].
  case: s sz Ds => [|d [|e [|f s]]] //= _ /and3P[Dd De _].
  rewrite addn0 => <-; case/orP: Dd => [dc|/dvdnP[q ->]]; case/orP: De => [ec|/dvdnP[q' ->]].
  - by move: dc ec; arith.
  - by rewrite addnC modnMDl modn_small ?dc ?orbT //; apply: leq_ltn_trans cw.
  - by rewrite modnMDl modn_small ?ec ?orbT //; apply: leq_ltn_trans cw.
  - by rewrite -mulnDl modnMl orbT.
case/orP=> [le|le].
  exists [:: minn m c; m - minn m c]; rewrite /= ?addn0 ?subnKC ?geq_minl //.
  split=> //; rewrite geq_minr /= andbT; case: (leqP m c); move: le; arith.
exists [:: m %% w; m %/ w * w]; rewrite /= ?le ?dvdn_mull ?orbT //.
by rewrite addn0 addnC -divn_eq.
Qed.
Example strided_15 : sums (fun d => (d <= 2) || (4 %| d)) 2 15 = false.
Proof. by rewrite strided_sums. Qed.

(* Proposition 15.8 (Fixed, and a relay). *)
Definition causal_fixed n w (l : nat) (k : 'I_n) :=
  [set j : 'I_n | (j <= k) && ((k %/ w == j %/ w) || (w %| j.+1))].
Theorem fixed_one_layer m w : 2 <= w <= m ->
  @reached m (@causal_fixed (2 * m).+2 w) 1 = m.+1 %/ w.
Proof.
case/andP=> w2 wm; have w0 : 0 < w by arith.
rewrite /reached (eq_bigr (fun i : 'I_m => nat_of_bool (w %| i.+2))) => [|i _].
  (* the multiples of w among 2, ..., m + 1 *)
  elim: m {wm} => [|m IH]; first by rewrite big_ord0 divn_small.
  by rewrite big_ord_recr /= IH [RHS]divnS // addnC.
have im := ltn_ord i; congr nat_of_bool.
have one k j : (j \in field (@causal_fixed (2 * m).+2 w) 1 k) =
    (j == k) || (j <= k) && ((k %/ w == j %/ w) || (w %| j.+1)).
  rewrite heard_self /= !inE; congr (_ || _); apply/bigcupP/idP => [[j' + /set1P ->]|jk]; rewrite ?inE //.
  by exists j; rewrite ?inE.
rewrite !one -!val_eqE /= !inordK; try by arith.
(* source and query lie in different blocks *)
have lt : i.+1 %/ w < (m + i.+1) %/ w.
  by apply: (@leq_trans ((w + i.+1) %/ w)); rewrite ?leq_div2r ?leq_add2r // divnDl // divnn w0.
by rewrite (gtn_eqF lt) /=; move: im; case: (w %| _); arith.
Qed.
Example fixed_one_layer_23 : @reached 23 (@causal_fixed 48 6) 1 = 4.
Proof. by rewrite fixed_one_layer. Qed.
Definition causal_star n (l : nat) (k : 'I_n) :=
  [set j : 'I_n | [|| j == 0 :> nat, k == j.+1 :> nat | j == k]].
Theorem star_field n L (k j : 'I_n) : 0 < L ->
  (j \in field (@causal_star n) L k) = (j == 0 :> nat) || (j <= k <= j + L).
Proof.
case: L => // L _; elim: L k => [|L IH] k.
  rewrite heard_self /= !inE -val_eqE /=; apply/orP/idP => [[/eqP e|/bigcupP[i]]|c]; first by rewrite e; arith.
    by rewrite !inE -!val_eqE /= => + /eqP e; rewrite -e; arith.
  by right; apply/bigcupP; exists j; rewrite !inE -?val_eqE /=; move: c; arith.
rewrite heard_self in_setU; apply/orP/idP => [[|/bigcupP[i]]|c].
- by rewrite (IH k); arith.
- by rewrite inE (IH i) -val_eqE /=; arith.
have [near|far] := boolP ((j == 0 :> nat) || (j <= k <= j + L.+1)).
  by left; rewrite (IH k).
have kn : k.-1 < n by move: (ltn_ord k); arith.
right; apply/bigcupP; exists (Ordinal kn); rewrite ?(IH (Ordinal kn)) ?inE -?val_eqE /=.
  by move: c far; arith.
by move: c far; arith.
Qed.
Theorem star_reaches_none m L : 0 < L < m -> @reached m (@causal_star (2 * m).+2) L = 0.
Proof.
case/andP=> L0 Lm; apply: big1 => i _; have im := ltn_ord i.
by rewrite !star_field // !inordK; arith.
Qed.
Example star_3 : @reached 3 (@causal_star 8) 2 = 0.
Proof. by rewrite star_reaches_none. Qed.

(* Theorem 15.3 (Reach bound). Sequences are functions s from the m places to the V symbols,
  all equally likely:
   we count them. *)
Section Reach.
Variables (m V L : nat).
Local Notation n := (2 * m).+2.
Local Notation seqs := {ffun 'I_m -> 'I_V}.
Variable A : nat -> 'I_n -> {set 'I_n}.
(* (15.1): token k holds the symbol of place k - 1, or of place k - m - 2, or the separator *)
Definition place (k : 'I_n) : option 'I_m :=
  insub (if k <= m then (if k == 0 :> nat then m else k.-1) else (if k == m.+1 :> nat then m else k
    - m.+2)).
Definition input (s : seqs) (k : 'I_n) : option 'I_V := omap s (place k).
Definition query (i : 'I_m) : 'I_n := tok m (m + i.+1).
Definition source (i : 'I_m) : 'I_n := tok m i.+1.
Definition copy (i : 'I_m) : 'I_n := tok m (m + i.+2).
Definition reach := [set i | (source i \in field A L (query i)) ||
  (copy i \in field A L (query i))].
(* predictors that see the fields alone; None is the separator *)
Definition sees (answer : 'I_m -> ('I_n -> option 'I_V) -> option 'I_V) :=
  forall i x x', {in field A L (query i), x =1 x'} -> answer i x = answer i x'.
Definition right (answer : 'I_m -> ('I_n -> option 'I_V) -> option 'I_V) i :=
  [set s : seqs | answer i (input s) == Some (s i)].

Lemma placeP k i : place k = Some i -> k = source i \/ k = copy i.
Proof.
rewrite /place; case: insubP => // u um uE [ui]; have km := ltn_ord k; have im := ltn_ord i.
move: uE; rewrite ui /=; case: ifP => le; case: ifP => e uE; try by move: uE im; arith.
  by left; apply: val_inj; rewrite /= inordK; move: uE le e im; arith.
by right; apply: val_inj; rewrite /= inordK; move: uE le e im km; arith.
Qed.
Lemma place_source i : place (source i) = Some i.
Proof.
have im := ltn_ord i; rewrite /place /source /tok inordK; last by arith.
by rewrite im /= (insubT (fun x => x < m) im); congr Some; apply: val_inj.
Qed.
Lemma place_copy i : place (copy i) = Some i.
Proof.
have im := ltn_ord i; rewrite /place /copy /tok inordK; last by arith.
have -> : m + i.+2 <= m = false by arith.
have -> : m + i.+2 == m.+1 = false by arith.
have -> : m + i.+2 - m.+2 = i by arith.
by rewrite (insubT (fun x => x < m) im); congr Some; apply: val_inj.
Qed.

Definition put (s : seqs) i a : seqs := [ffun j => if j == i then a else s j].
Lemma unreached answer i s a : sees answer -> i \notin reach ->
  answer i (input (put s i a)) = answer i (input s).
Proof.
rewrite inE negb_or => see /andP[ns nc]; apply: see => k kf; rewrite /input.
case E: (place k) => [j|//] /=; congr Some; rewrite ffunE; case: eqP => // ji.
by case: (placeP E) => e; rewrite ji in e; [move: ns|move: nc]; rewrite -e kf.
Qed.

(* at an unreached query: of the V sequences that differ in place i alone at most one is right *)
Lemma unreached_le answer i : sees answer -> i \notin reach -> #|right answer i| * V <= #|{: seqs}|.
Proof.
move=> see ni; rewrite -[X in _ * X <= _]card_ord -[X in _ * X <= _]cardsT -cardsX.
pose f (p : seqs * 'I_V) := put p.1 i p.2.
rewrite -(card_in_imset (f := f)) ?max_card // => -[s a] [s' a']; rewrite !inE /= !andbT.
move=> /eqP sr /eqP s'r ff.
have aa : a = a' by have /ffunP/(_ i) := ff; rewrite !ffunE eqxx.
suff ss : s = s' by rewrite aa ss.
have ans : answer i (input s) = answer i (input s').
  by rewrite -(unreached s a see ni) -(unreached s' a' see ni) -/(f (s, a)) ff.
apply/ffunP => j; have [->|ji] := eqVneq j i; first by move: ans; rewrite sr s'r => -[].
by have /ffunP/(_ j) := ff; rewrite !ffunE (negbTE ji).
Qed.
(* ... and exactly one, if the answer is always a symbol *)
Theorem unreached_chance answer i : sees answer -> i \notin reach ->
  (forall x, answer i x != None) -> #|right answer i| * V = #|{: seqs}|.
Proof.
move=> see ni symbol; apply/eqP; rewrite eqn_leq unreached_le //=.
rewrite -[X in _ <= _ * X]card_ord -[X in _ <= _ * X]cardsT -cardsX -cardsT.
pose g s := answer i (input s); have gput s a : g (put s i a) = g s by apply: unreached.
pose f (s : seqs) := (if g s is Some a then put s i a else s, s i).
have gS s : g s != None by apply: symbol.
rewrite -(card_in_imset (f := f)) => [|s s' _ _]; last first.
  rewrite /f; have := gS s; have := gS s'; case E: (g s) => [a|] //;
    case E': (g s') => [a'|] // _ _.
  case=> /ffunP eqs eqi; apply/ffunP => j; have [->//|ji] := eqVneq j i.
  by have := eqs j; rewrite !ffunE (negbTE ji).
apply: subset_leq_card; apply/subsetP => _ /imsetP[s _ ->]; rewrite !inE /f andbT -/(g _).
by have := gS s; case E: (g s) => [a|] // _; rewrite gput E ffunE eqxx.
Qed.
(* (15.3), times m V times the number of sequences *)
Theorem reach_bound answer : sees answer ->
  V * (\sum_i #|right answer i|) <= (V * #|reach| + #|~: reach|) * #|{: seqs}|.
Proof.
move=> see; rewrite big_distrr (bigID (mem reach)) mulnDl /=; apply: leq_add.
  by rewrite -!mulnA -sum_nat_const big_distrr; apply: leq_sum => i _;
    rewrite leq_mul2l max_card orbT.
rewrite -sum_nat_const [X in _ <= X](eq_bigl (fun i => i \notin reach)) => [|i];
  last by rewrite inE.
by apply: leq_sum => i ni; rewrite mulnC; apply: unreached_le.
Qed.
Theorem reach_attained : 0 < V -> exists2 answer, sees answer &
  V * (\sum_i #|right answer i|) = (V * #|reach| + #|~: reach|) * #|{: seqs}|.
Proof.
move=> V0; pose answer i (x : 'I_n -> option 'I_V) :=
  if source i \in field A L (query i) then x (source i)
  else if copy i \in field A L (query i) then x (copy i) else Some (Ordinal V0).
have see : sees answer.
  by move=> i x x' eqx; rewrite /answer; case: ifP => [/eqx //|_]; case: ifP => [/eqx|].
exists answer => //; rewrite big_distrr (bigID (mem reach)) mulnDl /=; congr (_ + _).
  rewrite -!mulnA -sum_nat_const big_distrr /=; apply: eq_bigr => i; rewrite inE => ri;
    congr (_ * _).
  apply: eq_card => s; rewrite !inE /answer /input; case: ifP => sr;
    first by rewrite place_source eqxx.
  by move: ri; rewrite sr /= => ->; rewrite place_copy eqxx.
rewrite -sum_nat_const [RHS](eq_bigl (fun i => i \notin reach)) => [|i]; last by rewrite inE.
apply: eq_bigr => i ni; rewrite mulnC; move: (ni); rewrite inE negb_or => /andP[/negbTE ns /negbTE
  nc].
have fixed_symbol x : answer i x = Some (Ordinal V0) by rewrite /answer ns nc.
pose constant (j : 'I_m) (x : 'I_n -> option 'I_V) := Some (Ordinal V0).
rewrite -(@unreached_chance constant i) //; congr (_ * _); apply: eq_card => s.
by rewrite !inE fixed_symbol.
Qed.
End Reach.
(* nobody reads anybody: of two symbols out of two, half are right in the mean *)
Example reach_none : exists answer, sees (V := 2) 1 (fun _ _ => set0) answer /\
  2 * (\sum_(i < 2) #|right answer i|) = 2 * 4.
Proof.
have [answer see e] := @reach_attained 2 2 1 (fun _ _ => set0) isT; exists answer; split=> //.
rewrite e (_ : reach 1 _ = set0); first by rewrite cards0 setC0 cardsT card_ffun !card_ord.
apply/setP => i; have im := ltn_ord i; rewrite !inE !heard_self !inE !big_set0 !inE !orbF -!val_eqE /=.
by rewrite !inordK; arith.
Qed.

(* Whoever never answers is a model that sees what reaches it. *)
Example reach_bound_met m V L (A : nat -> 'I_(2 * m).+2 -> {set 'I_(2 * m).+2})
  (answer : 'I_m -> ('I_(2 * m).+2 -> option 'I_V) -> option 'I_V := fun _ _ => None) :
  V * (\sum_i #|right answer i|) <= (V * #|reach L A| + #|~: reach L A|) * #|{ffun 'I_m -> 'I_V}|.
Proof. exact: reach_bound. Qed.
